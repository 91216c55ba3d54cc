"""The pictures of the documents, drawn from what the algorithms and operators really hold."""

"""Scripts of the house."""

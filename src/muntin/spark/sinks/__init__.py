"""Tables that `upsert` keeps current: one description of changes, and one file per kind of table."""

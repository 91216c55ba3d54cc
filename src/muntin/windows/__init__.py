"""Windows: where they start and end, and the durations they are measured in."""

from muntin.windows.durations import microseconds

__all__ = ["microseconds"]

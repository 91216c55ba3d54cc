"""Windows: where they start and end, and the durations they are measured in."""

from muntin.windows.durations import is_duration, microseconds

__all__ = ["is_duration", "microseconds"]

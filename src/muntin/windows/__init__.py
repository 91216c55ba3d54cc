"""Windows: where they start and end, and the durations they are measured in."""

from muntin.aggregates.durations import is_duration, microseconds, nanoseconds
from muntin.windows.assigned import SessionOfRows
from muntin.windows.calendar import Calendar
from muntin.windows.contextual import LastN, Policy, Punctuation, Session, Ticking
from muntin.windows.cumulate import Cumulate
from muntin.windows.fired import Fired
from muntin.windows.periodic import Delta, Fixed, Periodic, Sliding, Tumbling
from muntin.windows.row_count import RowCount, rows
from muntin.windows.window import ContextAwareWindow, ContextFreeWindow, Window

__all__ = [
    "Calendar",
    "ContextAwareWindow",
    "ContextFreeWindow",
    "Cumulate",
    "Delta",
    "Fired",
    "Fixed",
    "LastN",
    "Periodic",
    "Policy",
    "Punctuation",
    "RowCount",
    "Session",
    "SessionOfRows",
    "Sliding",
    "Ticking",
    "Tumbling",
    "Window",
    "is_duration",
    "microseconds",
    "nanoseconds",
    "rows",
]

"""The tables that slicing works on: what each of their columns holds, and how they are passed on.

A table is an array of int64 with a row for each slice, group or window. Lanes and loops name its columns
by the constants below. Times, and measures such as a number of rows, are whole numbers.
"""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

# A slice of one key. How many of these columns there are depends on what a plan has to know.
SLICE_START = 0  # where it begins, in the measure of its windows
SLICE_ROWS = 1  # the number of its rows
SLICE_LATE = 2  # how many of them came late since the last report
SLICE_FIRST = 3  # the time of its first row
SLICE_LAST = 4  # the time of its last row
SLICE_STALE = 5  # 1 if its partials must be folded again from kept rows
PLAIN_SLICE, TIMED_SLICE, REFOLDED_SLICE = 3, 5, 6
"""The number of columns: without times, with times, and with times and SLICE_STALE."""

# A session is a slice with other columns behind its rows.
SESSION_CHANGED = 2  # 1 if it changed since it was reported
SESSION_REPORTED = 6  # 1 if it was reported, 2 if only early
SESSION_COLUMNS = 7

# A slice that starts at a row which opens a window has other columns, too.
PUNCTUATED_CHANGED = 2  # 1 if it changed since it was reported
PUNCTUATED_END = 6  # the end with which it was reported as a window; ALWAYS if it was not
PUNCTUATED_OPENED = 7  # 1 if a row opened it, 0 if it starts at the key's first row only
PUNCTUATED_COLUMNS = 8

# A kept row of one key, in the order of time and arrival.
ROW_TIME = 0  # its time
ROW_MEASURE = 1  # its value of the measured column, if there is one
ROW_PLACE = 1  # instead, in a table of rows that were inserted: its place in the arena
ROW_NEW = 2  # 1 until its windows were reported
ROW_COLUMNS = 3

# What a policy has left of a key's rows at an end.
LEFT_END = 0  # the end
LEFT_START = 1  # the time of the oldest row that is left; the end if none is
LEFT_ROWS = 2  # how many rows are left
LEFT_COLUMNS = 3

# A walk along the ends of a key: what is left at each, as places of rows.
WALKED_END = 0
WALKED_LO = 1  # the rows [WALKED_LO, WALKED_HI) are left, as numbers among those that are kept
WALKED_HI = 2  # how many rows lie before the end
WALKED_COLUMNS = 3

# What links the rows of a policy that looks for the largest value.
LINK_NEXT = 0  # how far behind a row the first one lies that is above it; 0 if there is none
LINK_BEFORE = 1  # how far before it the last one lies that it is not above; 0 if there is none
LINK_COLUMNS = 2

# How a policy stands after some rows of a key.
STANDS_AT = 0  # how many rows the key has had by then, and -1 if that is not known
STANDS_HIGH = 1  # the sum of what is left: its upper limb; of floats, in their bits
STANDS_LOW = 2  # its lower limb; of floats the rest that rounding left
STANDS_SINCE = 3  # the rank of the row at which the last run of increasing values began
STANDS_LAST = 4  # the rank of the last row that has a value
STANDS_RUN = 5  # how many values the last run has
STANDS_LONGEST = 6  # how many values the longest run has
STANDS_COLUMNS = 7

# A group: the rows of one batch that share a key and a slice, or surely a session.
GROUP_KEY = 0  # the number of the key
GROUP_START = 1  # where the slice begins; not set for sessions
GROUP_ROWS = 2  # the number of rows
GROUP_LATE = 3  # how many of them are late; not set for sessions
GROUP_OPENED = 3  # instead, where rows open windows: 1 if one of them opens the slice
GROUP_FIRST = 4  # the time of the first row
GROUP_LAST = 5  # the time of the last row
GROUP_ROW = 6  # the number of its first row in the batch
GROUP_COLUMNS = 7

# A slice that changed since early results.
FRESH_KEY = 0  # the number of its key
FRESH_START = 1  # where it begins
FRESH_COLUMNS = 2

# A window that repeats: one definition.
PERIOD_SIZE = 0  # its length
PERIOD_EVERY = 1  # the distance between the starts of two windows
PERIOD_ORIGIN = 2  # where one of them starts
PERIOD_COLUMNS = 3

# A window that does not repeat, and is due or may have changed.
LISTED_WINDOW = 0  # the number of its definition
LISTED_START = 1
LISTED_END = 2
LISTED_LATE = 3  # 1 if it is listed because late rows may have changed it
LISTED_COLUMNS = 4

# A window to report.
KEY = 0  # the number of the key
WINDOW = 1  # the number of the definition
START = 2
END = 3
LO = 4  # its slices are at places [LO, HI) of the arena
HI = 5
KIND = 6  # one of the kinds below
REPORT_COLUMNS = 7
RESULT, UPDATE, RETRACT, EMPTY, EARLY = 0, 1, 2, 3, 4

# A session, or a window that a row opened, that was reported and is no more.
GONE_KEY = 0
GONE_FIRST = 1  # the time of its first row
GONE_LAST = 2  # the time of a session's last row; the end of another window
GONE_COLUMNS = 3

# A slice whose partials must be folded again.
STALE_KEY = 0
STALE_PLACE = 1  # its place in the arena
STALE_FIRST = 2  # the time of its first row
STALE_END = 3  # behind the time of its last row
STALE_COLUMNS = 4

# Items of an arena that move.
MOVE_FROM = 0  # the place of the first
MOVE_TO = 1  # where it goes
MOVE_ITEMS = 2  # how many
MOVE_COLUMNS = 3


class Rooms(NamedTuple):
    """Where the runs of an arena lie: key k has its items at places head[k] to head[k] + length[k]."""

    head: Array
    length: Array
    base: Array  # the first place of the room that a run has
    room: Array  # how many places the room has
    more: Array  # how many items are to be added
    moved: Array  # whether a run has moved since trees were built above it
    drift: Array  # how many places up the items of a run have moved in all


class Runs(NamedTuple):
    """A table with the runs of all keys: key k has rows head[k] to head[k] + length[k] of it."""

    table: Array
    head: Array
    length: Array


class KeyTimes(NamedTuple):
    """Times of each key."""

    due: Array  # when there is something to report
    dirty: Array  # the start of the first slice that late rows changed
    first: Array  # the start of its first slice
    last: Array  # the start of its last slice


class Watermarks(NamedTuple):
    """Times of each key, at [key * stride]; with a stride of 0 one for all keys."""

    after: Array  # the end up to which windows were reported
    upto: Array  # the end up to which windows are complete
    past: Array  # the end up to which windows cannot change any more
    keep: Array  # the start from which slices are needed
    stride: int


class Definitions(NamedTuple):
    """The windows of a lane."""

    periods: Array  # those that repeat
    listed: Array  # those that do not, and are due or may have changed
    step: int  # starts of slices differ by multiples of it; 0 if that is not known
    changes: bool  # whether only windows are reported at which a slice enters or leaves


class BatchRows(NamedTuple):
    """The rows of a batch on their way to slices."""

    keys: Array
    starts: Array  # where the slice of each row begins
    measure: Array  # what windows are measured in
    times: Array


class KnownEdges(NamedTuple):
    """Edges in order: all there are in a stretch [first, last] of the measure, and the one before it."""

    edges: Array
    first: int
    last: int


class HashTable(NamedTuple):
    """An empty hash table of a power of two slots, with the secret by which it chooses them."""

    slots: Array
    secret: Array

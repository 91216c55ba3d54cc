"""The log of changes to slices, which `slice_partials.replay` repeats on their partials.

A row of the log is one step. A place is that of a slice in its arena. A part is the partial of a group:
the rows of one batch that share a key and a slice.
"""

LOG_STEP = 0  # one of the steps below
LOG_PLACE = 1  # the place of a slice
LOG_OTHER = 2  # a part, another place, or the end of a run
LOG_COLUMNS = 3

NEW = 0  # the part becomes a new slice at the place
ADD = 1  # the part comes after the rows of the slice
LATE = 2  # the part comes before or between rows of the slice
JOIN = 3  # the slice at the other place, the next one, is merged into the slice at the place
OPEN = 4  # slices [place, other) move up by one
CLOSE = 5  # slices (place, other) move down by one, the first of them over the slice at the place

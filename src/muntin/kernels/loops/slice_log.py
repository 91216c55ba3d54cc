"""The log of what was done to slices, which their partials follow (`slice_partials.replay`).

A step is a row of the log. Places are those of slices in their arena. A part is the partial of a group:
the rows of one batch that share a key and a slice.
"""

LOG_STEP = 0  # one of the steps below
LOG_PLACE = 1  # the place of a slice
LOG_OTHER = 2  # a part, another place, or the end of a run
LOG_COLUMNS = 3

NEW = 0  # a new slice at the place: it is the part
ADD = 1  # the part comes after what is in the slice
LATE = 2  # the part comes somewhere into the slice
JOIN = 3  # the slice at the other place, next to it, becomes part of it
OPEN = 4  # slices from the place up to the other move up by one
CLOSE = 5  # slices behind the place up to the other move down by one, over it

"""The loops of this room, compiled once as one cached module."""

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from muntin.kernels.build import HEAD, loops
from muntin.kernels.cache import load_module
from muntin.slicing import grid_loops, report_loops, run_loops, session_loops
from muntin.windows.periodic import FURTHEST

Array = np.ndarray[Any, Any]
NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min
FAR = FURTHEST
"""Times and measures stay within this distance of 0, so that sums of a few sizes do not overflow."""
END_OF_TIME = 2 * FAR
"""No window that holds a time ends later, and no watermark is further on."""


@cache
def compiled_loops() -> ModuleType:
    """Return the compiled loops of runs, grids, reports and sessions."""
    rooms = (run_loops, grid_loops, report_loops, session_loops)
    return load_module(HEAD + "".join(loops(room) for room in rooms))

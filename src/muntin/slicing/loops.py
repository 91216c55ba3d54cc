"""The loops of this room, compiled once as one cached module."""

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from muntin.kernels.build import HEAD, loops
from muntin.kernels.cache import load_module
from muntin.slicing import grid_loops, report_loops, run_loops, session_loops

Array = np.ndarray[Any, Any]
NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min
FAR = 2**61
"""Times, sizes and watermarks stay within this distance of 0, so that sums of a few do not overflow."""


@cache
def compiled_loops() -> ModuleType:
    """Return the compiled loops of runs, grids, reports and sessions."""
    rooms = (run_loops, grid_loops, report_loops, session_loops)
    return load_module(HEAD + "".join(loops(room) for room in rooms))

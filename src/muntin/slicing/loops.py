"""The loops of this room, compiled once as one cached module."""

from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from muntin.kernels.build import HEAD, loops
from muntin.kernels.cache import load_module
from muntin.slicing import grid_loops, run_loops, session_loops

Array = np.ndarray[Any, Any]
NEVER = np.iinfo(np.int64).max
ALWAYS = np.iinfo(np.int64).min


@cache
def compiled_loops() -> ModuleType:
    """Return the compiled loops of runs, grids and sessions."""
    return load_module(HEAD + loops(run_loops) + loops(grid_loops) + loops(session_loops))

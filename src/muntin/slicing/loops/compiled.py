"""The loops over slices, compiled once as one cached module."""

from functools import cache
from types import ModuleType

from muntin.kernels.codegen.build import HEAD, loops
from muntin.kernels.codegen.cache import load_module
from muntin.slicing.loops import arena_moves, grid_reports, grid_slices, session_slices


@cache
def compiled_loops() -> ModuleType:
    """Return the compiled loops of runs, grids, reports and sessions."""
    modules = (arena_moves, grid_slices, grid_reports, session_slices)
    return load_module(HEAD + "".join(loops(module) for module in modules))

"""The loops over slices, compiled once as one cached module."""

from functools import cache
from types import ModuleType

from muntin.kernels.codegen.loop_source import load_loops
from muntin.slicing.loops import (
    arena_moves,
    early_reports,
    fired_windows,
    grid_reports,
    grid_slices,
    last_rows,
    left_rows,
    policy_rules,
    punctuated_slices,
    session_slices,
)


@cache
def compiled_loops() -> ModuleType:
    """Return the compiled loops of runs, grids, reports, sessions, punctuations and rows."""
    return load_loops(
        arena_moves,
        grid_slices,
        grid_reports,
        early_reports,
        session_slices,
        punctuated_slices,
        last_rows,
        fired_windows,
        policy_rules,
        left_rows,
    )

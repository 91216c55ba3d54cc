"""Results by tick: the ends of windows, and the groups that they are of, beside the results."""

import importlib
from typing import Any

from muntin.dataframes.rolling_request import Request
from muntin.dataframes.rolling_results import write_ticks
from muntin.kernels.spans import Ticks


def tick_columns(ticks: Ticks, request: Request) -> tuple[dict[str, Any], Any]:
    """Return the groups' keys by name, and the ends of windows, for each result."""
    source = request.source
    assert source.stamps is not None
    keys = {} if source.grouped is None else source.grouped.keys_of(ticks.groups)
    return keys, write_ticks(ticks.ends, source.stamps, source.kind)


def tick_index(keys: dict[str, Any], ends: Any, name: str) -> Any:
    """Return an index of pandas: the ends of windows, after the keys if there are some."""
    if not keys:
        return ends
    pandas = importlib.import_module("pandas")
    return pandas.MultiIndex.from_arrays([*keys.values(), ends], names=[*keys, name])


def with_ticks(results: Any, ticks: Ticks | None, request: Request) -> Any:
    """Return the results by tick: with pandas a series, else (ticks, results) or (keys, ticks, results).

    Keys are one column, or a tuple of several.
    """
    assert ticks is not None
    keys, ends = tick_columns(ticks, request)
    if request.source.kind == "pandas":
        results.index = tick_index(keys, ends, request.source.on_name)
        return results
    if not keys:
        return ends, results
    several = tuple(keys.values())
    return several if len(several) > 1 else several[0], ends, results

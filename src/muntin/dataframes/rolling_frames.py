"""Several sizes and several aggregates at once: which columns are asked for, and a frame of them."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muntin.aggregates import Aggregate
from muntin.dataframes.rolling_request import Request
from muntin.dataframes.rolling_ticks import tick_columns, tick_index
from muntin.kernels.spans import Ticks


@dataclass(frozen=True)
class Asked:
    """The size and the aggregate of each column of results; one alone is no frame."""

    columns: dict[str, tuple[Any, Aggregate]]
    every: Any
    is_frame: bool


def read_asked(size: Any, aggregate: Any, every: Any) -> Asked:
    """Return what each column of results is of.

    Columns are named <size>_<aggregate> if sizes and aggregates have names, else by those that have.
    """
    sizes = _by_name("size", size)
    aggregates = _by_name("aggregate", aggregate)
    named = isinstance(size, Mapping), isinstance(aggregate, Mapping)
    columns: dict[str, tuple[Any, Aggregate]] = {}
    for first, length in sizes.items():
        for second, chosen in aggregates.items():
            name = f"{first}_{second}" if all(named) else first if named[0] else second
            if name in columns:
                raise ValueError(
                    f"there would be two columns {name!r}: rename a size or an aggregate"
                )
            columns[name] = length, chosen
    return Asked(columns, every, any(named))


def _by_name(what: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {"": given}
    if not given:
        raise ValueError(f"the dict of {what}s is empty: give one by its name")
    for name in given:
        if not isinstance(name, str) or not name:
            raise TypeError(f"each {what} is named by text, got {name!r}")
    return dict(given)


def as_frame(results: dict[str, Any], ticks: Ticks | None, request: Request) -> Any:
    """Return columns of results as a frame of the kind that came in.

    Results by tick have the keys and the ends of windows beside them: with pandas as the index, else as
    columns.
    """
    kind, values = request.source.kind, request.source.values
    if ticks is None:
        columns, index = results, getattr(next(iter(results.values())), "index", None)
    else:
        keys, ends = tick_columns(ticks, request)
        name = request.source.on_name
        columns, index = {**keys, name: ends, **results}, None
        if len(columns) < len(keys) + 1 + len(results):
            raise ValueError(f"a result has the name of a key or of {name!r}: rename it")
        if kind == "pandas":
            columns, index = results, tick_index(keys, ends, name)
    if isinstance(values, dict) or kind == "numpy":
        return dict(columns)
    if kind == "pandas":
        pandas = importlib.import_module("pandas")
        arrays = {name: series.array for name, series in columns.items()}
        return pandas.DataFrame(arrays, index=index, copy=False)
    if kind == "polars":
        polars = importlib.import_module("polars")
        return polars.DataFrame([polars.Series(n, column) for n, column in columns.items()])
    pyarrow = importlib.import_module("pyarrow")
    return pyarrow.table(columns)

"""Frames of other kinds: what they are inside, and how results become one of them again.

A lazy frame of Polars is collected, a relation of DuckDB is fetched, a frame of Narwhals is the one that
it wraps. All else with `__arrow_c_stream__` or `__arrow_c_array__` is read by Arrow.
"""

import importlib
from collections.abc import Callable
from typing import Any

from muntin.dataframes.columns import as_arrow_data, is_frame, kind_of

Wrap = Callable[[Any], Any]


def unwrapped(data: Any) -> tuple[Any, Wrap]:
    """Return data in a kind that is read as it is, and what makes results be of the kind that came."""
    module = type(data).__module__.split(".")[0]
    if module == "narwhals":
        narwhals = importlib.import_module("narwhals")
        native, wrap = unwrapped(narwhals.to_native(data))
        return native, lambda results: _of_narwhals(narwhals, wrap(results))
    if module == "polars" and type(data).__name__ == "LazyFrame":
        return data.collect(), lambda results: results.lazy() if is_frame(results) else results
    if module in ("duckdb", "_duckdb") and hasattr(data, "to_arrow_table"):
        return data.to_arrow_table(), _of_duckdb
    data = as_arrow_data(data)
    if type(data).__module__ == "pyarrow.lib" and type(data).__name__ == "RecordBatch":
        return data, lambda results: _as_batch(results) if is_frame(results) else results
    return data, _as_is


def _as_is(results: Any) -> Any:
    return results


def _of_narwhals(narwhals: Any, results: Any) -> Any:
    return narwhals.from_native(results, allow_series=True, pass_through=True)


def _of_duckdb(results: Any) -> Any:
    if not is_frame(results):
        return results
    return importlib.import_module("duckdb").from_arrow(results)


def _as_batch(table: Any) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    whole = table.combine_chunks().to_batches()
    return whole[0] if whole else pyarrow.RecordBatch.from_pylist([], table.schema)


def column_of(frame: Any, name: str) -> Any:
    """Return a column of a frame, or raise KeyError.

    A pandas frame may have a name that is no text, which is known by its text if no other is; a level of
    its index counts as a column.
    """
    if kind_of(frame) == "pandas" and name not in frame.columns:
        alike = [column for column in frame.columns if str(column) == name]
        if len(alike) == 1:
            return frame[alike[0]]
        if name in frame.index.names:
            return frame.index.get_level_values(name).to_series(index=frame.index)
    if kind_of(frame) == "pandas" and list(frame.columns).count(name) > 1:
        raise KeyError(
            f"there are {list(frame.columns).count(name)} columns {name!r}: rename all but one"
        )
    try:
        return frame[name]
    except (KeyError, IndexError) as error:
        there = ", ".join(repr(n) for n in names_of(frame)) or "no columns"
        raise KeyError(f"no column {name!r} in the frame: there are {there}") from error


def names_of(frame: Any) -> list[Any]:
    """Return the names of a frame's columns."""
    if isinstance(frame, dict):
        return list(frame)
    return list(frame.schema.names if kind_of(frame) == "arrow" else frame.columns)


def has_column(frame: Any, name: str) -> bool:
    """Whether a frame has a column of this name."""
    try:
        column_of(frame, name)
    except KeyError:
        return False
    return True

"""pandas, in its own words: `Grouper` for tumbling windows, `rolling` for a result per row."""

from typing import Any

import pandas as pd

from conformance.cases import Case, Row
from conformance.engines.asked import CannotSayError, asked, rolled, word
from muntin.windows import Tumbling

WORDS = {
    "Count": "count", "Sum": "sum", "Min": "min", "Max": "max", "Mean": "mean", "Var": "var",
    "Std": "std", "Median": "median", "First": "first", "Last": "last", "CountDistinct": "nunique",
    "Skew": "skew",
}  # fmt: skip
SECOND = pd.Timedelta(1, "s")


def results(case: Case) -> list[Row]:
    """Return what pandas makes of a case."""
    return rolling(case) if case.rolls else grouped(case)


def grouped(case: Case) -> list[Row]:
    """Group by keys and tumbling windows."""
    ask = asked(case)
    window = ask.window
    if not isinstance(window, Tumbling):
        raise CannotSayError(f"no {type(window).__name__}")
    frame = pd.DataFrame(case.rows)
    frame["t"] = pd.to_datetime(frame["t"], unit="s")
    origin = pd.Timestamp(window.origin, unit="s")
    every = pd.Grouper(key="t", freq=f"{window.size}s", origin=origin)
    groups = frame.groupby([*ask.keys, every])
    found = []
    for name, group in groups:
        start = int((name[-1] - pd.Timestamp(0)) / SECOND)
        if len(group):
            row = dict(zip(ask.keys, name[:-1], strict=True))
            row |= {"start": start, "end": start + window.size}
            values = {a: value(group, *what) for a, what in ask.aggregates.items()}
            found.append(row | values)
    return found


def value(group: pd.DataFrame, aggregate: str, column: str | None) -> Any:
    """Return an aggregate of a group."""
    if column is None:
        return len(group)
    return plain(group.groupby(lambda _: 0)[column].agg(word(WORDS, aggregate)).iloc[0])


def rolling(case: Case) -> list[Row]:
    """Roll over a series."""
    options, name, aggregate, column = rolled(case)
    on, by = options.pop("on", None), options.pop("by", None)
    size = options.pop("size")
    frame = pd.DataFrame(case.rows)
    if on is not None:
        frame.index = pd.to_datetime(frame[on], unit="s")
        size = f"{size}s"
    if "center" in options and on is not None:
        raise CannotSayError("centred windows of time are not compared")
    series = frame[column]
    if by is None:
        found = getattr(series.rolling(size, **options), word(WORDS, aggregate))()
    else:
        grouped = series.groupby(frame[by])
        found = grouped.transform(
            lambda one: getattr(one.rolling(size, **options), word(WORDS, aggregate))()
        )
    return [{name: plain(result)} for result in found.tolist()]


def plain(result: Any) -> Any:
    """Return a result; pandas has NaN where nothing is."""
    return None if pd.isna(result) else getattr(result, "item", lambda: result)()

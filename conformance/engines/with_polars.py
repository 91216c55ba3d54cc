"""Polars, in its own words: `group_by_dynamic`, and the `rolling` functions of a series."""

from typing import Any

import polars as pl

from conformance.cases import Case, Row
from conformance.engines.asked import CannotSayError, asked, rolled, word
from muntin.windows import Session

WORDS = {
    "Count": "count", "Sum": "sum", "Min": "min", "Max": "max", "Mean": "mean", "Var": "var",
    "Std": "std", "Median": "median", "First": "first", "Last": "last", "CountDistinct": "n_unique",
}  # fmt: skip
ROLLING = ("Sum", "Min", "Max", "Mean", "Var", "Std", "Median")
SECOND = 1_000_000


def results(case: Case) -> list[Row]:
    """Return what Polars makes of a case."""
    return rolling(case) if case.rolls else grouped(case)


def frame_of(case: Case) -> pl.DataFrame:
    """Return the rows with times in microseconds."""
    frame = pl.DataFrame(case.rows, infer_schema_length=None)
    return frame.with_columns((pl.col("t") * SECOND).cast(pl.Datetime("us")))


def grouped(case: Case) -> list[Row]:
    """Group by windows that start at multiples."""
    ask = asked(case)
    window = ask.window
    if isinstance(window, Session):
        raise CannotSayError("no Session")
    made = [expression(*what).alias(name) for name, what in ask.aggregates.items()]
    frame = frame_of(case).drop_nulls("t").sort("t", maintain_order=True)
    groups = frame.group_by_dynamic(
        "t", every=f"{window.every}s", period=f"{window.size}s", offset=f"{window.origin}s",
        closed="left", group_by=[*ask.keys] or None,
    )  # fmt: skip
    found = []
    for row in groups.agg(made).to_dicts():
        start = int(row.pop("t").timestamp())
        found.append(row | {"start": start, "end": start + window.size})
    return found


def expression(aggregate: str, column: str | None) -> pl.Expr:
    """Return an aggregate of a group."""
    made: Any = pl.len() if column is None else getattr(pl.col(column), word(WORDS, aggregate))()
    return made


def rolling(case: Case) -> list[Row]:
    """Roll over a series."""
    options, name, aggregate, column = rolled(case)
    if aggregate not in ROLLING:
        raise CannotSayError(f"no rolling {aggregate}")
    size, on, by = options.pop("size"), options.pop("on", None), options.pop("by", None)
    if "min_periods" in options:
        options["min_samples"] = options.pop("min_periods")
    if options.get("closed") == "neither":
        options["closed"] = "none"
    function, values = f"rolling_{aggregate.lower()}", pl.col(column or "")
    if on is None:
        made = getattr(values, function)(size, **options)
    else:
        made = getattr(values, f"{function}_by")(on, window_size=f"{size}s", **options)
    made = made if by is None else made.over(by)
    return frame_of(case).select(made.alias(name)).to_dicts()

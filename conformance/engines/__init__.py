"""Who runs the cases: each engine takes a case and returns its rows, or says why it cannot say it."""

from collections.abc import Callable

from conformance.cases import Case, Row
from conformance.engines import ours, with_duckdb, with_pandas, with_polars, with_spark
from conformance.engines.asked import CannotSayError

ENGINES: dict[str, Callable[[Case], list[Row]]] = {
    "muntin": ours.at_once,
    "muntin, row by row": ours.row_by_row,
    "Spark": with_spark.results,
    "pandas": with_pandas.results,
    "Polars": with_polars.results,
    "DuckDB": with_duckdb.results,
}
OURS = tuple(name for name in ENGINES if name.startswith("muntin"))

__all__ = ["ENGINES", "OURS", "CannotSayError"]

"""Sliding-window aggregation for PySpark and Python.

A muntin is the bar that divides a window into panes. This package divides a stream into slices that
all windows share, and merges them in constant time.
"""

import importlib
from typing import TYPE_CHECKING, Any

from muntin import policies
from muntin._version import __version__
from muntin.aggregates import (
    AGGREGATES,
    M4,
    Aggregate,
    ApproxDistinct,
    ApproxQuantile,
    ArgMax,
    ArgMin,
    Bloom,
    Collect,
    CollectDistinct,
    Concat,
    Count,
    CountDistinct,
    CountMin,
    First,
    GeoMean,
    Last,
    LongestRun,
    Max,
    MaxCount,
    Mean,
    Median,
    Min,
    MinCount,
    MomentSketch,
    Product,
    Quantile,
    Range,
    RelativeVariation,
    SnapshotError,
    Std,
    Sum,
    TopK,
    Var,
    col,
)
from muntin.aggregators import (
    ALGORITHMS,
    Aggregator,
    Amta,
    BInt,
    Daba,
    DabaLite,
    Fiba,
    FlatFat,
    FlatFit,
    InvariantError,
    LogMta,
    Pba,
    Recalc,
    Sba,
    SlickDeque,
    SubtractOnEvict,
    TwoStacks,
    TwoStacksLite,
)
from muntin.policies import PolicyWindow
from muntin.query.query import Query
from muntin.windows import (
    Calendar,
    ContextAwareWindow,
    ContextFreeWindow,
    Cumulate,
    Delta,
    Fixed,
    LastN,
    Policy,
    Punctuation,
    Session,
    Sliding,
    Tumbling,
    rows,
)

if TYPE_CHECKING:
    from muntin import testing
    from muntin.dataframes.rolling_batch import InterpretedWarning, rolling, rolling_plan
    from muntin.dataframes.rolling_stream import Rolling
    from muntin.query.as_of import as_of
    from muntin.stores import MemoryStore, RedisStore, RocksStore, StoreError

__all__ = [
    "AGGREGATES",
    "ALGORITHMS",
    "M4",
    "Aggregate",
    "Aggregator",
    "Amta",
    "ApproxDistinct",
    "ApproxQuantile",
    "ArgMax",
    "ArgMin",
    "BInt",
    "Bloom",
    "Calendar",
    "Collect",
    "CollectDistinct",
    "Concat",
    "ContextAwareWindow",
    "ContextFreeWindow",
    "Count",
    "CountDistinct",
    "CountMin",
    "Cumulate",
    "Daba",
    "DabaLite",
    "Delta",
    "Fiba",
    "First",
    "Fixed",
    "FlatFat",
    "FlatFit",
    "GeoMean",
    "InterpretedWarning",
    "InvariantError",
    "Last",
    "LastN",
    "LogMta",
    "LongestRun",
    "Max",
    "MaxCount",
    "Mean",
    "Median",
    "MemoryStore",
    "Min",
    "MinCount",
    "MomentSketch",
    "Pba",
    "Policy",
    "PolicyWindow",
    "Product",
    "Punctuation",
    "Quantile",
    "Query",
    "Range",
    "Recalc",
    "RedisStore",
    "RelativeVariation",
    "RocksStore",
    "Rolling",
    "Sba",
    "Session",
    "SlickDeque",
    "Sliding",
    "SnapshotError",
    "Std",
    "StoreError",
    "SubtractOnEvict",
    "Sum",
    "TopK",
    "Tumbling",
    "TwoStacks",
    "TwoStacksLite",
    "Var",
    "__version__",
    "as_of",
    "col",
    "policies",
    "rolling",
    "rolling_plan",
    "rows",
    "spark",
    "testing",
]

_LAZY_MODULES = ("spark", "testing")
_LAZY_NAMES = {
    "Rolling": "muntin.dataframes.rolling_stream",
    "InterpretedWarning": "muntin.dataframes.rolling_batch",
    "rolling": "muntin.dataframes.rolling_batch",
    "rolling_plan": "muntin.dataframes.rolling_batch",
    "as_of": "muntin.query.as_of",
    "MemoryStore": "muntin.stores",
    "RedisStore": "muntin.stores",
    "RocksStore": "muntin.stores",
    "StoreError": "muntin.stores",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"muntin.{name}")
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module(_LAZY_NAMES[name]), name)
    raise AttributeError(f"module 'muntin' has no attribute {name!r}")

"""Sliding-window aggregation for PySpark and Python.

A muntin is the bar that divides a window into panes. This package divides a stream into slices that
all windows share, and merges them in constant time.
"""

import importlib
from types import ModuleType

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

__version__ = "0.1.0"

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
    "Collect",
    "CollectDistinct",
    "Concat",
    "Count",
    "CountDistinct",
    "CountMin",
    "Daba",
    "DabaLite",
    "Fiba",
    "First",
    "FlatFat",
    "FlatFit",
    "GeoMean",
    "InvariantError",
    "Last",
    "LogMta",
    "LongestRun",
    "Max",
    "MaxCount",
    "Mean",
    "Median",
    "Min",
    "MinCount",
    "MomentSketch",
    "Pba",
    "Product",
    "Quantile",
    "Range",
    "Recalc",
    "RelativeVariation",
    "Sba",
    "SlickDeque",
    "SnapshotError",
    "Std",
    "SubtractOnEvict",
    "Sum",
    "TopK",
    "TwoStacks",
    "TwoStacksLite",
    "Var",
    "testing",
]

_LAZY_MODULES = ("testing",)


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"muntin.{name}")
    raise AttributeError(f"module 'muntin' has no attribute {name!r}")

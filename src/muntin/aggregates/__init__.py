"""Aggregates: lift, combine, lower, identity, inverse, and the algebraic facts about them."""

from collections.abc import Callable

from muntin.aggregates.aggregate import Aggregate
from muntin.aggregates.arguments import ArgMax, ArgMin
from muntin.aggregates.bloom import Bloom
from muntin.aggregates.chosen_rows import BottomBy, TopBy
from muntin.aggregates.comparison import close, same_partial, same_result
from muntin.aggregates.conditions import col
from muntin.aggregates.counters import Increase
from muntin.aggregates.decayed import DecayedSum, Ewm
from muntin.aggregates.encoding import SnapshotError, seal, unseal
from muntin.aggregates.extremes import (
    M4,
    Max,
    MaxCount,
    Min,
    MinCount,
    Range,
    RelativeVariation,
)
from muntin.aggregates.frequencies import Entropy, Mode, Rank
from muntin.aggregates.histogram import Histogram
from muntin.aggregates.logic import All, Any, BitAnd, BitOr
from muntin.aggregates.moments import MomentSketch
from muntin.aggregates.over_time import Rate, TimeWeightedMean
from muntin.aggregates.pairs import Corr, Cov
from muntin.aggregates.prices import Drawdown, Ohlc, Vwap
from muntin.aggregates.product import Product
from muntin.aggregates.products import Prod
from muntin.aggregates.quantiles import Median, Quantile, Quantiles
from muntin.aggregates.regression import Regression
from muntin.aggregates.runs import LongestRun
from muntin.aggregates.sequences import (
    Collect,
    CollectDistinct,
    Concat,
    CountDistinct,
    First,
    FirstK,
    Last,
    LastK,
)
from muntin.aggregates.shape import Kurt, Skew
from muntin.aggregates.sketches import ApproxDistinct, ApproxQuantile, CountMin, TopK
from muntin.aggregates.spread import Sem, Std, Var, Zscore
from muntin.aggregates.stored_sketches import HllSketch, KllSketch, ThetaSketch
from muntin.aggregates.sums import Count, GeoMean, Mean, Sum

AGGREGATES: dict[str, Callable[..., Aggregate]] = {
    factory.__name__: factory
    for factory in (
        Count,
        Sum,
        Min,
        Max,
        Mean,
        GeoMean,
        Var,
        Std,
        Range,
        MinCount,
        MaxCount,
        ArgMin,
        ArgMax,
        First,
        Last,
        Collect,
        CollectDistinct,
        CountDistinct,
        Concat,
        M4,
        Median,
        Quantile,
        MomentSketch,
        Bloom,
        CountMin,
        ApproxDistinct,
        ApproxQuantile,
        TopK,
        RelativeVariation,
        LongestRun,
        Sem,
        Zscore,
        Skew,
        Kurt,
        Cov,
        Corr,
        Regression,
        Prod,
        All,
        Any,
        BitAnd,
        BitOr,
        Ohlc,
        Vwap,
        Drawdown,
        Quantiles,
        Rank,
        Mode,
        Entropy,
        Histogram,
        TopBy,
        BottomBy,
        FirstK,
        LastK,
        Ewm,
        DecayedSum,
        TimeWeightedMean,
        Rate,
        Increase,
        HllSketch,
        KllSketch,
        ThetaSketch,
    )
}
"""Every built-in aggregate by its name."""

__all__ = [
    "AGGREGATES",
    "M4",
    "Aggregate",
    "All",
    "Any",
    "ApproxDistinct",
    "ApproxQuantile",
    "ArgMax",
    "ArgMin",
    "BitAnd",
    "BitOr",
    "Bloom",
    "BottomBy",
    "Collect",
    "CollectDistinct",
    "Concat",
    "Corr",
    "Count",
    "CountDistinct",
    "CountMin",
    "Cov",
    "DecayedSum",
    "Drawdown",
    "Entropy",
    "Ewm",
    "First",
    "FirstK",
    "GeoMean",
    "Histogram",
    "HllSketch",
    "Increase",
    "KllSketch",
    "Kurt",
    "Last",
    "LastK",
    "LongestRun",
    "Max",
    "MaxCount",
    "Mean",
    "Median",
    "Min",
    "MinCount",
    "Mode",
    "MomentSketch",
    "Ohlc",
    "Prod",
    "Product",
    "Quantile",
    "Quantiles",
    "Range",
    "Rank",
    "Rate",
    "Regression",
    "RelativeVariation",
    "Sem",
    "Skew",
    "SnapshotError",
    "Std",
    "Sum",
    "ThetaSketch",
    "TimeWeightedMean",
    "TopBy",
    "TopK",
    "Var",
    "Vwap",
    "Zscore",
    "close",
    "col",
    "same_partial",
    "same_result",
    "seal",
    "unseal",
]

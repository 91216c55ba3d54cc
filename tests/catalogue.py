"""Every aggregate of the registry with inputs that suit it; a new aggregate must be added here."""

from hypothesis import strategies as st

import muntin as mt

# Multiples of 1/8 add up without rounding, so that results must be equal to the last bit.
integers = st.integers(-50, 50)
eighths = st.integers(-400, 400).map(lambda k: k / 8)
numbers = st.one_of(integers, eighths)
words = st.sampled_from(["a", "b", "c", "dd", ""])
pairs = st.tuples(numbers, numbers)
rows = st.fixed_dictionaries({"v": st.one_of(st.none(), st.integers(0, 5)), "a": words})
timed = st.tuples(numbers, st.sampled_from([0, 3, 3, 3, 8]))

INPUTS = {
    "Count": (mt.Count, numbers),
    "Sum": (mt.Sum, numbers),
    "Min": (mt.Min, numbers),
    "Max": (mt.Max, numbers),
    "Mean": (mt.Mean, numbers),
    "GeoMean": (mt.GeoMean, numbers),
    "Var": (mt.Var, numbers),
    "Std": (lambda: mt.Std(ddof=0), numbers),
    "Range": (mt.Range, numbers),
    "MinCount": (mt.MinCount, integers),
    "MaxCount": (mt.MaxCount, integers),
    "ArgMin": (mt.ArgMin, st.tuples(integers, words)),
    "ArgMax": (mt.ArgMax, st.tuples(integers, words)),
    "First": (lambda: mt.First(nulls=True), integers),
    "Last": (mt.Last, integers),
    "Collect": (lambda: mt.Collect(nulls=True), integers),
    "CollectDistinct": (mt.CollectDistinct, words),
    "CountDistinct": (mt.CountDistinct, words),
    "Concat": (mt.Concat, words),
    "M4": (mt.M4, numbers),
    "Median": (mt.Median, numbers),
    "Quantile": (lambda: mt.Quantile(q=0.9), numbers),
    "MomentSketch": (mt.MomentSketch, integers),
    "Bloom": (mt.Bloom, words),
    "CountMin": (mt.CountMin, words),
    "ApproxDistinct": (mt.ApproxDistinct, words),
    "ApproxQuantile": (mt.ApproxQuantile, integers),
    "TopK": (mt.TopK, words),
    "RelativeVariation": (mt.RelativeVariation, numbers),
    "LongestRun": (mt.LongestRun, integers),
    "Sem": (mt.Sem, numbers),
    "Zscore": (mt.Zscore, integers),
    "Skew": (mt.Skew, integers),
    "Kurt": (mt.Kurt, integers),
    "Cov": (mt.Cov, pairs),
    "Corr": (mt.Corr, pairs),
    "Regression": (mt.Regression, pairs),
    "Prod": (mt.Prod, integers),
    "All": (mt.All, st.booleans()),
    "Any": (mt.Any, st.booleans()),
    "BitAnd": (mt.BitAnd, integers),
    "BitOr": (mt.BitOr, integers),
    "Ohlc": (mt.Ohlc, numbers),
    "Vwap": (mt.Vwap, pairs),
    "Drawdown": (mt.Drawdown, st.integers(0, 50)),
    "Quantiles": (lambda: mt.Quantiles(q=[0.9, 0, 0.5]), numbers),
    "Rank": (mt.Rank, integers),
    "Mode": (mt.Mode, st.integers(0, 4)),
    "Entropy": (mt.Entropy, st.integers(0, 4)),
    "Histogram": (lambda: mt.Histogram(edges=[-20, -0.5, 0, 30]), numbers),
    "TopBy": (lambda: mt.TopBy(3), st.one_of(numbers, st.just(float("nan")))),
    "BottomBy": (lambda: mt.BottomBy(2, "v", "v", "a"), rows),
    "FirstK": (lambda: mt.FirstK(3), integers),
    "LastK": (lambda: mt.LastK(2), integers),
    "Ewm": (lambda: mt.Ewm(alpha=0.3, adjust=False), numbers),
    "DecayedSum": (lambda: mt.DecayedSum(halflife=3), timed),
    "TimeWeightedMean": (mt.TimeWeightedMean, timed),
    "Rate": (mt.Rate, timed),
    "Increase": (mt.Increase, numbers),
    "HllSketch": (mt.HllSketch, words),
    "KllSketch": (mt.KllSketch, integers),
    "ThetaSketch": (mt.ThetaSketch, words),
}
THOROUGH = ("Collect", "Max", "Sum")
"""They meet every algorithm with many examples."""
OFTEN = ("Count", "Mean", "Var", "ArgMax", "First", "Concat", "Median", "TopK", "LongestRun")
"""They meet every algorithm with some examples, the others with a few."""
TWO_COLUMNS = ("ArgMin", "ArgMax", "Cov", "Corr", "Regression", "Vwap", "TopBy", "BottomBy")
WORDS = (
    *("CollectDistinct", "CountDistinct", "Concat", "ApproxDistinct", "TopK", "Mode", "Entropy"),
    *("HllSketch", "ThetaSketch"),
)
ASKED_FIRST = ("TopBy", "BottomBy", "FirstK", "LastK")
"""They are told how many rows they are to keep before the columns."""
ASKED = {
    "Histogram": {"edges": [-10, 0, 3, 20]},
    "Quantiles": {"q": [0.25, 0.9]},
    "Ewm": {"span": 4},
    "DecayedSum": {"halflife": 4},
}
"""What some aggregates must be told."""
TIMED = ("DecayedSum", "TimeWeightedMean", "Rate")
"""They take the time of each row from their second column."""
OBJECTS = ("Bloom", "CountMin")
"""Their results are objects, which no table can hold."""
OF_TABLES = [name for name in INPUTS if name not in OBJECTS]


def of_columns(name, value="v", other="n", word="", **options):
    """Return an aggregate of columns; one of words takes the column `word`, if there is one."""
    columns = (
        (value, other) if name in TWO_COLUMNS else (word if word and name in WORDS else value,)
    )
    first = (3,) if name in ASKED_FIRST else ()
    options |= {"time": other} if name in TIMED else {}
    return mt.AGGREGATES[name](*first, *columns, **ASKED.get(name, {}), **options)


def product_of_three():
    return mt.Product(mt.Max(), mt.Sum(), mt.Collect())


def weighted_mean():
    """A user's own aggregate: five lines."""
    return mt.Aggregate(
        "weighted_mean",
        identity=(0, 0),
        lift=lambda pair: (pair[0] * pair[1], pair[1]),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda p: p[0] / p[1] if p[1] else None,
    )


COMPOSED = {
    "Product": (product_of_three, integers),
    "own": (weighted_mean, st.tuples(integers, st.integers(1, 9))),
    "Ewm by time": (lambda: mt.Ewm(halflife=3), timed),
}

ALL = {**INPUTS, **COMPOSED}


def make(name):
    """Return the aggregate, and a strategy for its inputs with nulls among them."""
    factory, inputs = ALL[name]
    aggregate = factory()
    has_nulls = name != "own" and not aggregate.columns
    return aggregate, st.one_of(st.none(), inputs) if has_nulls else inputs

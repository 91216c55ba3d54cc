"""Every aggregate of the registry with inputs that suit it; a new aggregate must be added here."""

from hypothesis import strategies as st

import muntin as mt

# Multiples of 1/8 add up without rounding, so that results must be equal to the last bit.
integers = st.integers(-50, 50)
eighths = st.integers(-400, 400).map(lambda k: k / 8)
numbers = st.one_of(integers, eighths)
words = st.sampled_from(["a", "b", "c", "dd", ""])

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
}


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
}

ALL = {**INPUTS, **COMPOSED}


def make(name):
    """Return the aggregate, and a strategy for its inputs with nulls among them."""
    factory, inputs = ALL[name]
    return factory(), st.one_of(st.none(), inputs) if name != "own" else inputs

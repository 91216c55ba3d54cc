"""The house: names that are promised, imports that stay light, documents that tell the truth."""

import subprocess
import sys

import pytest

import muntin as mt

PROMISED_AGGREGATES = """
Count Sum Min Max Mean GeoMean Var Std Range MinCount MaxCount ArgMin ArgMax First Last Collect
CollectDistinct CountDistinct Concat M4 Median Quantile MomentSketch Bloom CountMin ApproxDistinct
ApproxQuantile TopK RelativeVariation LongestRun Sem Zscore Skew Kurt Cov Corr Regression
Prod All Any BitAnd BitOr Ohlc Vwap Drawdown Quantiles Rank Mode Entropy Histogram TopBy BottomBy
FirstK LastK Ewm DecayedSum TimeWeightedMean Rate Increase HllSketch
KllSketch ThetaSketch
""".split()
PROMISED_ALGORITHMS = """
Recalc SubtractOnEvict TwoStacks TwoStacksLite Daba DabaLite SlickDeque FlatFit FlatFat BInt Sba Pba
LogMta Amta Fiba
""".split()
PROMISED_OTHERS = (
    "Aggregate Product SnapshotError ALGORITHMS testing Policy PolicyWindow policies col".split()
)
HEAVY = "numpy numba pandas polars pyarrow pyspark datasketches matplotlib rich".split()


def test_promised_names_are_there():
    assert set(PROMISED_AGGREGATES) == set(mt.AGGREGATES)
    assert set(PROMISED_ALGORITHMS) == set(mt.ALGORITHMS)
    promised = {*PROMISED_AGGREGATES, *PROMISED_ALGORITHMS, *PROMISED_OTHERS}
    assert promised <= set(mt.__all__)
    for name in mt.__all__:
        assert getattr(mt, name) is not None
    with pytest.raises(AttributeError, match="Maximum"):
        _ = mt.Maximum


def test_importing_muntin_imports_nothing_heavy():
    code = f"import muntin, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "[]"


@pytest.mark.parametrize("algorithm", mt.ALGORITHMS.values(), ids=mt.ALGORITHMS)
def test_every_algorithm_has_a_card_and_a_way_of_showing_itself(algorithm):
    card = algorithm.card
    assert all((card.ordering, card.needs, card.time, card.space, card.paper))
    window = algorithm(mt.Sum())
    window.bulk_insert([1, 2])
    assert repr(window) == f"<{algorithm.__name__}(sum) of 2 values>"

"""Many small shards have the results of one call, and the arithmetic for clusters."""

import pyarrow as pa
import pytest
from benchmarks import scale
from scripts import clusters

RATES = {
    "packing a row": 1.0, "taking a row": 1.5, "reporting a result": 0.5,
    "a shard without rows": 1000.0, "a row on the network": 50.0,
    "a key in memory": 100.0, "a slice in memory": 50.0,
    "a key in the store": 10.0, "a slice in the store": 5.0, "recovering": 10.0,
}  # fmt: skip


@pytest.mark.parametrize("shards", [1, 3, 16])
def test_shards_have_the_results_of_one_call_and_its_combines(shards):
    keys, batches = 48 // shards, 4
    spent = scale.simulated(shards, keys, batches)
    scale.check(shards, keys, batches, spent)
    assert spent.rows == 48 * batches
    assert spent.combines == scale.simulated(2, 24, batches).combines


@pytest.mark.parametrize("change", ["lost", "twice", "other"])
def test_results_that_differ_are_found(change):
    spent = scale.simulated(3, 4, 4)
    table = spent.results[0]
    if change == "other":
        place = table.column_names.index("m")
        lower = pa.array([n - 1 for n in table["m"].to_pylist()], table["m"].type)
        spent.results[0] = table.set_column(place, "m", lower)
    else:
        spent.results[:1] = [] if change == "lost" else [table, table]
    with pytest.raises(AssertionError, match="3 shards have"):
        scale.check(3, 4, 4, spent)


def test_a_cluster_by_hand():
    size = clusters.Size(rows=1e6, keys=1e6)
    assert size.slices == 13
    assert size.work(RATES) == pytest.approx(2.5 + 1e6 / 300 * 0.5e-6)
    assert size.state(RATES) == 1e6 * (100 + 13 * 50)
    assert size.cores(RATES) == (6, "work")
    assert clusters.Size(1e3, 1e7).slices == 1
    cores, why = clusters.Size(1e3, 1e8).cores(RATES)
    assert (cores, why) == (14, "state")
    found = clusters.column(size, RATES)
    assert found["network, rows to shards"] == "0.40 Gbit/s"
    assert found["store"] == "up to 0.2 GB"
    assert found["recovery of a core's shards"] == "up to 4 s"


def test_pages_without_results_say_what_to_run(monkeypatch):
    monkeypatch.setattr(clusters, "kept", dict)
    assert clusters.simulated() == clusters.clusters() == clusters.NONE

"""What CONTRIBUTING says is true: the files that change, and that plugins need no others."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import muntin as mt
from muntin.stores import stored
from tests.plugin import Doubling, Energy, FolderStore, Squares

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "muntin"
SAMPLES = {
    "an aggregate": "GeoMean",
    "an algorithm": "FlatFit",
    "a window": "Delta",
    "a kind of lane": "CountLane",
    "a store": "RocksStore",
}


def rows_of_the_table():
    """Return (what to add, where it is registered, what tests and lists it) from CONTRIBUTING."""
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    return {
        what: (re.findall(r"`([^`]+)`", written)[:1], *(re.findall(r"`([^`]+)`", c) for c in rest))
        for what, written, *rest in cells[1:]
    }


def names_in(path):
    """Return the names that a file's code has, without its docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        yield from (
            getattr(node, field)
            for field in ("id", "attr", "name", "value")
            if isinstance(getattr(node, field, None), str)
        )


@pytest.mark.parametrize("what", SAMPLES)
def test_the_files_that_change_are_those_that_are_listed(what):
    (folder,), registered, tested = rows_of_the_table()[what]
    files = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py")}
    naming = {f for f in files if SAMPLES[what] in names_in(PACKAGE / f)}
    own = {f for f in naming if f.startswith(folder) and not f.endswith("__init__.py")}
    assert len(own) == 1
    assert naming - own == set(registered)
    for place in tested:
        text = (ROOT / place).read_text()
        assert what == "a kind of lane" or re.search(rf"\b{SAMPLES[what]}\b", text), place


def test_a_spark_source_is_one_file_and_a_line_for_job_files():
    _, registered, listed = rows_of_the_table()["a Spark source"]
    for place in registered:
        assert "muntin_kafka" in (PACKAGE / place).read_text()
    assert all("KafkaSource" in (ROOT / place).read_text() for place in listed)


ROWS = {"t": np.arange(1, 40), "v": np.arange(1, 40) / 2}


def energy_between(start, end):
    return sum((t / 2) ** 2 for t in range(start, min(end, 40)))


@pytest.mark.parametrize("plan", ["auto", "eager", "naive"])
def test_a_plugin_adds_an_aggregate_and_a_window_with_a_lane(plan):
    windows = {"own": Doubling(), "ten": mt.Tumbling(10)}
    query = mt.Query(time="t", windows=windows, aggregates={"e": Energy("v")})
    table = query.run(ROWS, plan)
    assert {r["window"] for r in table.to_pylist()} == {"own", "ten"}
    for row in table.to_pylist():
        assert row["e"] == pytest.approx(energy_between(row["start"], row["end"]))
    assert [lane.kind for lane in query.plan().lanes] == ["doubling", "time"]


def test_a_plugins_aggregate_is_compiled_and_rolls():
    from muntin.kernels.codegen.build import compiled
    from muntin.kernels.codegen.layout import Layout

    assert compiled(Energy(), Layout((np.dtype(np.float64),), nullable=False)).cached
    assert mt.rolling(ROWS["v"], 3, Energy())[2] == pytest.approx(energy_between(1, 4))


def test_a_plugins_store_holds_a_window(tmp_path):
    with stored(mt.Sum(), FolderStore(tmp_path), "readings") as window:
        window.bulk_insert(range(2000))
        window.bulk_evict(500)
    with stored(mt.Sum(), FolderStore(tmp_path), "readings") as window:
        assert window.query() == sum(range(500, 2000))


def test_a_plugins_source_feeds_a_query_on_spark(spark):
    spark.dataSource.register(Squares)
    rows = spark.read.format("squares").option("rows", 20).load()
    windows, aggregates = {"ten": mt.Tumbling(10)}, {"s": mt.Sum("v")}
    query = mt.Query(time="t", windows=windows, aggregates=aggregates)
    found = mt.spark.aggregate(rows, query).orderBy("start").toPandas()["s"].tolist()
    assert found == [sum(t * t for t in range(10)), sum(t * t for t in range(10, 20))]

"""States that were forged and sealed again are refused, or give an operator that works.

Compiled loops run with bounds checked, in a process and a cache folder of their own: the cache does not
know that setting. More states are forged by `python -m scripts.forge --seed 1 --count 5000`.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin.aggregates import seal, unseal
from muntin.spark.packing import AS_ROWS, Packing

ROOT = Path(__file__).parents[1]
COUNT = 240


def test_forged_states_are_refused_or_work(pytestconfig):
    cache = pytestconfig.cache.mkdir("bounds_checked")
    settings = {"NUMBA_BOUNDSCHECK": "1", "MUNTIN_CACHE_DIR": str(cache)}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "scripts.forge", "--seed", "20260", "--count", str(COUNT)],
        cwd=ROOT,
        env={**os.environ, **settings, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    assert sum(map(int, outcomes.values())) == COUNT
    assert int(outcomes["refused"]) > COUNT / 5
    assert int(outcomes["works"]) > COUNT / 10


def filled(**options) -> tuple[mt.Query, dict]:
    query = mt.Query(
        time="t",
        keys="k",
        windows={"w": mt.Sliding(20, 5)},
        aggregates={"sum": mt.Sum("v")},
        **options,
    )
    operator = query.operator()
    operator.process({"t": list(range(40)), "k": [i % 3 for i in range(40)], "v": [1] * 40})
    return query, unseal(operator.snapshot())


def swapped(array: np.ndarray) -> np.ndarray:
    return array[[1, 0, *range(2, len(array))]]


def put(array: np.ndarray, at: object, number: int) -> np.ndarray:
    changed = array.copy()
    changed[at] = number
    return changed


SLICES = {
    "slices out of order": ("meta", swapped),
    "a slice too far away": ("meta", lambda meta: put(meta, (0, 0), -(2**62) - 1)),
    "negative rows": ("meta", lambda meta: put(meta, (0, 1), -5)),
    "a run too long": ("lengths", lambda lengths: put(lengths, 0, 1000)),
    "a negative run": ("lengths", lambda lengths: put(lengths, 0, -1)),
    "lengths that overflow": ("lengths", lambda lengths: put(lengths, slice(None), 2**62)),
    "floats": ("meta", lambda meta: meta * 1.0),
    "partials of another type": ("columns", lambda sets: [[p * 1.0 for p in c] for c in sets]),
    "no partials": ("columns", lambda _: []),
}
WHOLE = {
    "a watermark too far": ("watermark", lambda _: 2**63),
    "lanes of other windows": ("lanes", lambda lanes: lanes * 2),
    "last times of other keys": ("last", lambda last: last[:1]),
    "a lane without its keys": (
        "keys",
        lambda _: unseal(filled()[0].operator().snapshot())["keys"],
    ),
}


@pytest.mark.parametrize("name", [*SLICES, *WHOLE])
def test_a_forgery_is_refused(name):
    query, state = filled()
    part, change = {**SLICES, **WHOLE}[name]
    held = state if name in WHOLE else state["lanes"][0][3]["slices"]
    query.restore(seal(state))
    held[part] = change(held[part])
    with pytest.raises(mt.SnapshotError):
        query.restore(seal(state))


def test_rows_whose_offsets_lie_are_refused():
    """A text that would lie outside of its buffer, in rows on their way to a shard."""
    schema = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
    query = mt.Query(
        time="t", keys="k", windows={"p": mt.LastN(3, 10)}, aggregates={"all": mt.Collect("v")}
    )
    packing = Packing("offsets", query, pa.Table.from_batches([], schema))
    table = pa.table({"t": [1, 2], "k": ["ab", "cd"], "v": [1, 2]}, schema=schema)
    ((_, packed),) = packing.pack(table, 1)
    offsets = np.array([0, 2, 4], np.int32).tobytes()
    assert packed.count(offsets) == 1
    lying = packed.replace(offsets, np.array([0, 2, 1 << 30], np.int32).tobytes())
    operator = packing.operator(query)
    for payload in (lying, AS_ROWS, AS_ROWS + b"text", packed[:-40]):
        with pytest.raises(mt.SnapshotError):
            packing.feed(operator, [payload])
    with pytest.raises(mt.SnapshotError, match="begin with"):
        packing.feed(operator, [b"X"])
    assert packing.feed(operator, []) == []
    assert len(packing.feed(operator, [packed])) == 1

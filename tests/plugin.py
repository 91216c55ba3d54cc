"""A small plugin: an aggregate with a kernel, a window, a lane, a store and a Spark source.

It uses what people outside the package have, and registers a kind of lane in one line.
"""

from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import muntin as mt
from muntin.aggregates.aggregate import Kernel
from muntin.query.lane_factory import LANES
from muntin.slicing.lanes.grid_lane import GridLane
from muntin.stores.store import Store

NOTHING = 0


def _square(value):
    return value * value


def _add(a, b):
    return a + b


def _total(partial, values):  # noqa: ARG001 - a kernel's lower also gets the number of values
    return partial


def Energy(column=None):
    """Return the sum of squares, compiled where the column holds floats."""
    return mt.Aggregate(
        "energy",
        NOTHING,
        lift=_square,
        combine=_add,
        commutative=True,
        columns=() if column is None else (column,),
        kernel=Kernel(_square, _add, _total),
        result="float",
        version=1,
    )


class Doubling(mt.ContextFreeWindow):
    """[1, 2), [2, 4), [4, 8) and so on, served by a lane of its own."""

    def lane(self, name, ordered):
        del ordered
        return "doubling", name

    def next_edge(self, t):
        return 1 if t < 1 else 1 << t.bit_length()

    def closed(self, after, upto):
        end = max(2, 1 << max(after, 1).bit_length())
        while end <= upto:
            yield end // 2, end
            end *= 2


class DoublingLane(GridLane):
    """A grid that serves only these windows."""


LANES["doubling"] = DoublingLane


class FolderStore(Store):
    """Keeps each block in a file."""

    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)

    def _file(self, window, key):
        level, number = key
        return self.folder / f"{window}-{level}-{number}"

    def get(self, window, keys):
        files = [self._file(window, key) for key in keys]
        return [file.read_bytes() if file.exists() else None for file in files]

    def put(self, window, items):
        for key, block in items.items():
            self._file(window, key).write_bytes(block)

    def delete_range(self, window, level, first, end):
        for number in range(first, end):
            self._file(window, (level, number)).unlink(missing_ok=True)

    def __repr__(self):
        return f"<FolderStore {self.folder.name}>"


class Squares(DataSource):
    """Rows t, v = t * t for t below the option `rows`."""

    @classmethod
    def name(cls):
        return "squares"

    def schema(self):
        return "t bigint, v double"

    def reader(self, schema):
        del schema
        return SquaresReader(int(self.options["rows"]))


class SquaresReader(DataSourceReader):
    """Reads half of the rows in each of two partitions."""

    def __init__(self, rows):
        self.rows = rows

    def partitions(self):
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition):
        for t in range(partition.value, self.rows, 2):
            yield t, float(t * t)

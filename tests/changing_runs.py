"""What runs a case beside its definition: an operator, or shards whose copies are lost."""

import random
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from unittest.mock import patch

import pyarrow as pa

import muntin as mt
from muntin.query.operator import LOOK_EVERY, MANY_KEYS
from muntin.spark.packing import Packing
from muntin.spark.shard import Copies, Shard
from tests.changing_cases import SCHEMA, Changed, bound
from tests.changing_consumer import Consumer
from tests.test_query_properties import KEYS


def run_operator(case):
    """Give a case to an operator; raise AssertionError if it reports anything else than it should."""
    with forgetting(case):
        _run_operator(case)


@contextmanager
def forgetting(case):
    """Let keys be forgotten however few there are, if a case asks for it."""
    many, often = (1, 1) if case.forgets else (MANY_KEYS, LOOK_EVERY)
    place = "muntin.query.operator"
    with patch(f"{place}.MANY_KEYS", many), patch(f"{place}.LOOK_EVERY", often):
        yield


def _run_operator(case):
    changed = Changed(case)
    operator, oracle = changed.query.operator(case.plan), changed.oracle
    consumer, batch = Consumer(oracle, case.emit), []

    def process():
        if batch:
            table = operator.process(batch)
            consumer.take(table, oracle.process(batch))
            batch.clear()

    for kind, *given in case.steps:
        if kind == "row":
            batch.append(given[0])
            continue
        process()
        if kind == "advance":
            table = operator.advance(given[0])
            consumer.take(table, oracle.advance(given[0]))
        elif kind == "restart":
            operator = operator.query.restore(operator.snapshot())
        elif kind == "bad":
            operator = BAD[int(given[0] * len(BAD))](operator, row_at(oracle)) or operator
        elif kind == "change":
            for call in changed.calls(given[0], consumer):
                changed.apply(call)
                method, *arguments = call
                if method == "add_aggregate":
                    arguments = [arguments[0], bound(*arguments[1:])]
                getattr(operator, method)(*arguments)
        elif kind == "reopen":
            for call in changed.calls(given[0], consumer, at_once=True):
                changed.apply(call)
            operator = changed.query.restore(operator.snapshot())
    process()


class MemoryBlocks(dict):
    """A state store that can be rolled back, as Spark's is when a task fails."""

    def put(self, name, block):
        self[name] = block

    def delete(self, name):
        del self[name]


def run_shards(case):
    """Give a case to shards; the rows up to a watermark are a micro-batch."""
    chance = random.Random(len(case.steps))
    short = chance.choice((1, 400, 1 << 16))
    with forgetting(case), patch("muntin.spark.shard.SHORT_LOG", short):
        _run_shards(case, chance)


def _run_shards(case, chance):
    changed = Changed(case)
    consumer, batch, pending = Consumer(changed.oracle, case.emit), [], []
    stores = [MemoryBlocks() for _ in range(case.shards)]
    stream = Stream(changed.query, stores, chance)
    for kind, *given in case.steps:
        if kind == "row":
            batch.append(given[0])
        elif kind in ("change", "reopen"):
            pending += given[0]
        elif kind == "restart":
            stream = Stream(changed.query, stores, chance)
        elif kind == "advance":
            if pending:
                for call in changed.calls(pending, consumer, at_once=True):
                    changed.apply(call)
                stream, pending = Stream(changed.query, stores, chance), []
            table = stream.take(batch, given[0])
            report = changed.oracle.process(batch).joined(changed.oracle.advance(given[0]))
            consumer.take(table, report)
            batch = []


RUNS = count()


class Stream:
    """A run of a stream: shards in some workers, of which each has its copies."""

    def __init__(self, query, stores, chance, plan="auto"):
        self.query, self.stores, self.chance = query, stores, chance
        self.workers = [Copies(), Copies(most=chance.choice((0, 1 << 30)))]
        needed = {*query.columns, *KEYS, "t", "mark", "v", "n"}
        self.schema = pa.schema([field for field in SCHEMA if field.name in needed])
        empty = pa.Table.from_batches([], self.schema)
        self.packing = Packing(f"run {next(RUNS)}", query, empty, plan=plan)

    def take(self, rows, watermark):
        """Take a micro-batch in some partitions, of which some tasks fail; return what is reported."""
        shards, table = len(self.stores), pa.Table.from_pylist(rows, self.schema)
        cut = self.chance.randint(0, len(table))
        packed = defaultdict(list)
        for part in (table.slice(0, cut), table.slice(cut)):
            for shard, payload in self.packing.pack(part, shards) if len(part) else ():
                packed[shard].append(payload)
        reported = []
        for shard, store in enumerate(self.stores):
            if self.chance.random() < 0.2:  # a task that fails after it was done
                self._shard(MemoryBlocks(store)).take(packed[shard], watermark)
            done = self._shard(store).take(packed[shard], watermark)
            reported += [done.results] if done.results is not None else []
        if not reported:
            return self.query.operator().results()
        return pa.concat_tables(reported, promote_options="permissive")

    def _shard(self, store):
        if self.chance.random() < 0.1:
            self.workers[self.chance.randrange(2)] = Copies()
        return Shard(self.packing, store, {}, self.chance.choice(self.workers))


# Calls that must fail, and change nothing


class Broken(mt.ContextFreeWindow):
    """A window of one's own that does not work."""

    def next_edge(self, t):
        raise ZeroDivisionError(t)

    def closed(self, after, upto):
        raise ZeroDivisionError(after, upto)


def broken_lift(value):
    raise ZeroDivisionError(value)


BROKEN = mt.Aggregate("broken", 0, broken_lift, max, columns=("n",), commutative=True)


def row_at(oracle):
    """Return a row that may come next."""
    t = max([0, oracle.watermark, *(arrival.values["t"] for arrival in oracle.log)])
    known = {"t": t, "room": "a", "plug": 0, "n": 0, "km": t, "gap": 1}
    return dict.fromkeys(SCHEMA.names) | known


def refused(operator, call, error):
    """Call what must fail, and look whether it has changed anything."""
    before, query = operator.snapshot(), operator.query
    try:
        call()
    except error:
        pass
    else:
        raise AssertionError("a call that must fail did not")
    assert operator.snapshot() == before, "a call that failed has changed something"
    assert operator.query == query


def null_time(operator, row):
    refused(operator, lambda: operator.process([row, {**row, "t": None}]), ValueError)


def no_key(operator, row):
    refused(operator, lambda: operator.process([{"t": row["t"]}]), KeyError)


def window_twice(operator, _row):
    name = next(iter(operator.query.windows))
    refused(operator, lambda: operator.add_window(name, mt.Tumbling(5)), ValueError)


def no_window(operator, _row):
    refused(operator, lambda: operator.add_window("x", "Tumbling"), TypeError)


def unknown_window(operator, _row):
    refused(operator, lambda: operator.remove_window("nowhere"), KeyError)


def other_keys(operator, _row):
    other = replace(operator.query, keys=("room",))
    refused(operator, lambda: other.restore(operator.snapshot()), mt.SnapshotError)


def aggregate_twice(operator, _row):
    name = next(iter(operator.query.aggregates))
    refused(operator, lambda: operator.add_aggregate(name, mt.Count()), ValueError)


def unknown_aggregate(operator, _row):
    refused(operator, lambda: operator.remove_aggregate("nothing"), KeyError)


def negative_lateness(operator, _row):
    refused(operator, lambda: operator.change_lateness(-1), ValueError)


def broken_window(operator, row):
    """Add a window whose edges cannot be found, and remove it."""
    before = operator.snapshot()
    try:
        operator.add_window("broken", Broken())
    except ZeroDivisionError:
        assert operator.snapshot() == before
        return None
    operator = hurt(operator, row)
    operator.remove_window("broken")
    return operator


def broken_aggregate(operator, row):
    """Add an aggregate that cannot lift a value, and remove it."""
    operator.add_aggregate("broken", BROKEN)
    operator = hurt(operator, row)
    operator.remove_aggregate("broken")
    return operator


def hurt(operator, row):
    """Give a row to something broken; return the operator without it, if nothing broken was needed."""
    before = operator.snapshot()
    try:
        operator.process([row])
    except ZeroDivisionError:
        assert operator.snapshot() == before, "a call that failed has changed something"
        return operator
    return operator.query.restore(before)


BAD = (
    null_time,
    no_key,
    window_twice,
    no_window,
    unknown_window,
    other_keys,
    aggregate_twice,
    unknown_aggregate,
    negative_lateness,
    broken_window,
    broken_aggregate,
)

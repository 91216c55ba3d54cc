"""One aggregate's partials beside the slices of an arena, and what is done to them.

A lazy store keeps the slices' partials alone; an eager one keeps the inner nodes of a tree over them too
(EDBT 2019, section 3; VLDB 2015: FlatFAT), with the leaves behind the nodes.
"""

from typing import Any

import numpy as np

from muntin.aggregates import Aggregate
from muntin.kernels.loops.loop_arguments import Spans, Suffixes
from muntin.kernels.loops.slice_log import ADD, LOG_COLUMNS, LOG_OTHER, LOG_PLACE, LOG_STEP
from muntin.kernels.loops.slice_partials import Shifts, Table
from muntin.kernels.slice_kernels import SliceKernels
from muntin.slicing.held_bytes import SOME, Measure
from muntin.slicing.limits import Array

LAZY, EAGER, FOLDED = "lazy", "eager", "folded"
"""Slices merged at need by a shared scan; a tree that is kept; each window folded for itself."""
KEPT, WORST_CASE = "kept", "worst case"
"""What a window leaves for the next is kept: by amortised, or by worst-case constant cost."""
FEW_KINDS = 4
"""More kinds of windows share what is kept: each would have a front of its own beside the slices."""


class Partials:
    """The partials of one aggregate, at the places of an arena of slices."""

    def __init__(self, aggregate: Aggregate, kernels: SliceKernels, store: str) -> None:
        self.aggregate = aggregate
        self.kernels = kernels
        self.store = store
        self.eager = store == EAGER
        self.combines = 0  # how many combines windows took so far
        self._places = 0
        self._arrays = kernels.buffer(0)

    @property
    def _base(self) -> int:
        return self._places if self.eager else 0

    def renew(self, places: int) -> None:
        """Make space for a number of places, with nothing at them; the caller rebuilds the tree."""
        self._arrays = self.kernels.buffer(2 * places if self.eager else places)
        self._places = places

    def clear(self) -> None:
        """Hold partials of no values at all places."""
        self._arrays = self.kernels.nothing(self.aggregate.identity, len(self._arrays[0]))

    def retype(self, kernels: SliceKernels) -> None:
        """Hold partials of another type, because only nulls came so far."""
        self.kernels = kernels
        self.clear()

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The fields of the partials, at every place from 0 on."""
        return tuple(array[self._base :] for array in self._arrays)

    def fold(
        self, inputs: tuple[Array, ...], group: Array | None, first: Array
    ) -> tuple[Array, ...]:
        """Return the partial of each group of rows; without `group` they lie group by group."""
        if self.kernels.columns is None and self.aggregate.gather is not None:
            return (self._gathered(inputs[0], group, first),)
        parts = self.kernels.buffer(len(first))
        module, zero = self.kernels.module, self.kernels.unsigned(0)
        if group is None:
            ends = np.append(first[1:], len(inputs[0]))
            module.fold_spans(inputs, first, ends, parts, np.arange(len(first)), zero)
        else:
            module.fold_groups(inputs, group, first, parts)
        return parts

    def _gathered(self, inputs: Array, group: Array | None, first: Array) -> Array:
        """Return the partial of each group from all its values at once."""
        gather, identity = self.aggregate.gather, self.aggregate.identity
        assert gather is not None
        if group is None:
            ends = np.append(first[1:], len(inputs))
        else:
            inputs = inputs[np.argsort(group, kind="stable")]
            ends = np.cumsum(np.bincount(group, minlength=len(first)))
        partials, start = [], 0
        for end in ends.tolist():
            values = [x for x in inputs[start:end] if x is not None or self.aggregate.nulls]
            partials.append(gather(values) if values else identity)
            start = end
        return np.fromiter(partials, object, len(partials))

    def lift(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """Return the partial of each row."""
        return self.fold(inputs, None, np.arange(len(inputs[0])))

    def replay(self, log: Array, steps: int, parts: tuple[Array, ...]) -> None:
        """Do to the partials what the log says was done to the slices."""
        base = self.kernels.unsigned(self._base)
        in_order_only = not self.aggregate.commutative
        self.kernels.module.replay(log, steps, parts, self._arrays, base, in_order_only)

    def take(self, places: Array) -> tuple[Array, ...]:
        """Return the partials at some places."""
        return tuple(array[self._base + places] for array in self._arrays)

    def gathered(self, places: Array) -> "Partials":
        """Return the partials at some places, one behind the other."""
        others = Partials(self.aggregate, self.kernels, LAZY)
        others.renew(len(places))
        others.put(np.arange(len(places)), self.take(places))
        return others

    def put(self, places: Array, parts: tuple[Array, ...]) -> None:
        """Put partials at some places."""
        for array, part in zip(self._arrays, parts, strict=True):
            array[self._base + places] = part

    def refold(self, rows: "Partials", lo: Array, hi: Array, places: Array) -> None:
        """Fold kept rows [lo, hi) into the slices at some places."""
        base = self.kernels.unsigned(self._base)
        self.kernels.module.merge_spans(rows._arrays, lo, hi, self._arrays, places, base)

    def extend(self, rows: "Partials", lo: Array, hi: Array, places: Array) -> None:
        """Fold kept rows [lo, hi), and add them behind what there is at some places."""
        parts, log = (
            self.kernels.buffer(len(places)),
            np.empty((len(places), LOG_COLUMNS), np.int64),
        )
        log[:, LOG_STEP], log[:, LOG_PLACE], log[:, LOG_OTHER] = ADD, places, np.arange(len(places))
        zero = self.kernels.unsigned(0)
        self.kernels.module.merge_spans(rows._arrays, lo, hi, parts, log[:, LOG_OTHER].copy(), zero)
        self.replay(log, len(log), parts)

    def shift(self, rows: "Partials", places: Array, a: Array, b: Array, by: Array) -> Array:
        """Slide slices of kept rows [a, b) back, with the inverse; return where it declined."""
        undone = np.zeros(len(places), np.bool_)
        base = self.kernels.unsigned(self._base)
        module = self.kernels.module
        module.shift_spans(rows._arrays, self._arrays, base, Shifts(places, a, b, by), undone)
        return undone

    def settle(self, a: Array, b: Array, lo: Array, hi: Array) -> None:
        """Bring the tree above changed places [a, b) of runs [lo, hi) up to date."""
        if self.eager:
            base = self.kernels.unsigned(self._base)
            self.kernels.module.update_trees(self._arrays, base, a, b, lo, hi)

    def query(self, lo: Array, hi: Array, keys: Array, runs: Array) -> tuple[Array, ...]:
        """Return the results of windows over slices [lo, hi).

        `keys` and `runs` are where a key, and a kind of windows of a key, begins among them, and where
        the last ends. In a run lo and hi never fall.
        """
        outs = self.kernels.outputs(len(lo))
        if len(lo) == 0:
            return outs
        module, unsigned = self.kernels.module, self.kernels.unsigned
        base = unsigned(self._base)
        if self.eager:
            self.combines += int(module.query_tree(self._arrays, base, lo, hi, outs))
            return outs
        if self.store == FOLDED or len(runs) - 1 == len(
            lo
        ):  # no two windows share a slice in order
            module.query_folds(self._arrays, base, lo, hi, outs)
            self.combines += int((hi - lo).sum()) - len(lo)
            return outs
        reach = np.maximum.reduceat(hi, keys[:-1]) - np.minimum.reduceat(lo, keys[:-1])
        depth = int(reach.max()).bit_length()
        scanned = 2 * int((hi[runs[1:] - 1] - lo[runs[:-1]]).sum())
        if scanned <= depth * int(reach.sum()):
            slots = 1 << max(int((hi - lo).max()) - 1, 1).bit_length()
            suffixes = Suffixes(self.kernels.buffer(slots), unsigned(slots - 1))
            spent = module.query_spans(self._arrays, base, Spans(lo, hi), outs, suffixes)
            self.combines += int(spent)
        else:
            width = int(reach.max())
            table = Table(self.kernels.buffer(width * depth), unsigned(width))
            spent = module.query_table(self._arrays, base, Spans(lo, hi), outs, keys, table)
            self.combines += int(spent)
        return outs

    def bytes(self, places: Array, count: int, measure: Measure) -> int:
        """Estimate the memory of the partials from those at some of the `count` places in use."""
        size = sum(array.nbytes for array in self._arrays)
        if self.kernels.columns is not None:
            return size
        items = self.take(places)[0].tolist()
        objects = measure.objects(items, count)
        if self.eager:
            objects += measure.objects(self._arrays[0][places].tolist(), count)
        if (
            self.aggregate.encode is not None
        ):  # memory that is not Python's is about what is written
            written = [self.aggregate.to_plain(item) for item in items[:SOME]]
            objects = max(objects, Measure().objects(written, count))
        return size + objects

    def plain(self, places: Array) -> list[Any]:
        """Return the partials at some places as plain data."""
        return self.written(self.take(places))

    def load(self, plain: list[Any], places: Array) -> None:
        """Put saved partials at some places."""
        self.put(places, self.read(plain, len(places)))

    def written(self, parts: tuple[Array, ...]) -> list[Any]:
        """Return partials as plain data."""
        if self.kernels.columns is not None:
            return list(parts)
        return [[self.aggregate.to_plain(partial) for partial in parts[0]]]

    def read(self, plain: list[Any], count: int) -> tuple[Array, ...]:
        """Return the partials that `written` wrote."""
        if len(plain) != len(self._arrays) or any(len(column) != count for column in plain):
            raise ValueError(f"partials of {self.aggregate.name!r} do not fit {count} slices")
        if self.kernels.columns is None:
            return (np.fromiter(map(self.aggregate.from_plain, plain[0]), object, count),)
        shapes = [(getattr(c, "dtype", None), getattr(c, "shape", None)) for c in plain]
        if shapes != [(field, (count,)) for field in self.kernels.fields]:
            raise ValueError(f"partials of {self.aggregate.name!r} are of types {shapes}")
        return tuple(plain)

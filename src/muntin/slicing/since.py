"""Since when aggregates that were added to a running query have values.

An aggregate that was added is null in windows that hold anything from before. What came before lies in
the first items of a key's run (slices, or kept rows): a window whose first item is up to the key's last
one at that time has no value.
"""

from typing import Any

import numpy as np

from muntin.slicing.arena import whole
from muntin.slicing.lane import Report, longer
from muntin.slicing.limits import ALWAYS, Array
from muntin.slicing.tables import KEY

ABSENT = -1
"""In place of a number of values: there is no result, whatever the result of no values is."""


class Since:
    """For each aggregate that was added, by its number: per key the last item without values."""

    def __init__(self) -> None:
        self._upto: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._upto)

    def add(self, i: int, last: Array) -> None:
        """Let aggregate i have values behind the last items there are now, if there are any."""
        if (last > ALWAYS).any():
            self._upto = {**self._upto, i: last}

    def note(self, i: int, keys: Array, items: Array) -> None:
        """Note items that have no values of aggregate i."""
        held = self._upto.get(i, np.zeros(0, np.int64))
        last = longer(held, int(keys.max()) + 1, ALWAYS).copy()
        np.maximum.at(last, keys, items)
        self._upto = {**self._upto, i: last}

    def remove(self, i: int) -> None:
        """Forget aggregate i; those behind it move up."""
        self._upto = {j - (j > i): last for j, last in self._upto.items() if j != i}

    def keep_keys(self, alive: Array) -> None:
        """Forget the keys that are not alive."""
        kept = {
            i: longer(last, len(alive), ALWAYS)[: len(alive)][alive]
            for i, last in self._upto.items()
        }
        self._upto = {i: last for i, last in kept.items() if (last > ALWAYS).any()}

    def hide(self, report: Report, first: Array) -> None:
        """Take results away from windows that hold anything from before, given their first items."""
        keys = report.windows[report.valued, KEY]
        for i, last in self._upto.items():
            upto = np.where(keys < len(last), last[np.minimum(keys, len(last) - 1)], ALWAYS)
            report.results[i] = without(report.results[i], first <= upto)

    def plain(self, keys: int) -> list[Any]:
        """Return it as plain data, for a number of keys."""
        return [[i, last[:keys]] for i, last in self._upto.items()]

    @staticmethod
    def some_aggregates(plain: Any, which: list[int]) -> list[Any]:
        """Return what was saved, of some aggregates."""
        numbers = {old: new for new, old in enumerate(which)}
        return [[numbers[i], last] for i, last in plain if i in numbers]

    def load(self, plain: Any, aggregates: int, keys: int) -> None:
        """Take what was saved."""
        self._upto = {int(i): whole(last) for i, last in plain}
        if any(not 0 <= i < aggregates or len(v) > keys for i, v in self._upto.items()):
            raise ValueError(f"aggregates {[*self._upto]} of {aggregates}, for {keys} keys")


def without(results: tuple[Array, ...], which: Array) -> tuple[Array, ...]:
    """Return results of an aggregate, some of them absent."""
    count, *others = results
    if count.dtype == object:
        count = count.copy()
        count[which] = None
        return (count,)
    return (np.where(which, ABSENT, count), *others)

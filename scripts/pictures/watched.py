"""A window that is watched while it runs: what a step combines, and what a query reads.

Values are letters and combine joins them, so that every partial tells which values it stands for.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import muntin as mt

Call = tuple[Any, Any, Any]


@dataclass
class Watch:
    """Counts combines and inverses, and remembers what was combined until the next look."""

    calls: list[Call] = field(default_factory=list)
    inverses: int = 0
    beside: int = 0
    _owner: int = field(default_factory=threading.get_ident)

    def text(self) -> mt.Aggregate:
        """Return the aggregate that joins letters, watched; what is joined can be cut off again."""
        return mt.Aggregate(
            "text", "", lift=str, combine=self._watched(str.__add__), inverse=self._cut
        )

    def over(self, aggregate: mt.Aggregate) -> mt.Aggregate:
        """Return an aggregate, watched."""
        return replace(aggregate, combine=self._watched(aggregate.combine))

    def _watched(self, combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def watched(a: Any, b: Any) -> Any:
            combined = combine(a, b)
            if threading.get_ident() == self._owner:
                self.calls.append((a, b, combined))
            else:
                self.beside += 1
            return combined

        return watched

    def _cut(self, total: str, old: str) -> str:
        self.inverses += 1
        return total[len(old) :]

    def look(self) -> tuple[list[Call], str]:
        """Return the combines since the last look, and all that was done in words."""
        calls, words = self.calls, [_count(len(self.calls), "combine")]
        if self.inverses:
            words = [_count(self.inverses, "inverse")]
        if self.beside:
            words.append(f"and {self.beside} on the second thread")
        self.calls, self.inverses, self.beside = [], 0, 0
        return calls, ", ".join(words)


def parts_read(calls: list[Call], result: Any) -> list[str]:
    """Return the stored partials that a query combined, in the order of its result."""
    made = {id(joined) for _, _, joined in calls}
    read = [part for a, b, _ in calls for part in (a, b) if id(part) not in made]
    return sorted(read, key=str(result).index) if read else [str(result)]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"

"""How late a row may be, in a query whose lateness may have been changed."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from muntin.slicing.limits import END_OF_TIME, FAR, Array, less


@dataclass(frozen=True)
class Lateness:
    """How long after its end a window still changes.

    A raised lateness holds for windows that end after the watermark at the change. `before` has a pair
    (watermark, lateness) per change: windows that end by that watermark keep that lateness.
    """

    allowed: int
    before: tuple[tuple[int, int], ...] = ()

    def past(self, watermark: Array) -> Array:
        """Return for each watermark the end up to which windows do not change any more."""
        past = less(watermark, self.allowed)
        for at, allowed in self.before:
            past = np.maximum(past, np.minimum(less(watermark, allowed), at))
        return past

    @property
    def longest(self) -> int:
        """The longest lateness that a window may have."""
        return max(self.allowed, *(allowed for _, allowed in self.before), 0)

    def changed(self, allowed: int, watermark: int | None) -> "Lateness":
        """Return the lateness that holds from a watermark on; None if there is no watermark yet."""
        if allowed == self.allowed:
            return self
        before = () if watermark is None else (*self.before, (watermark, self.allowed))
        kept = [
            (at, old) for at, old in before if old < allowed and at > (watermark or 0) - allowed
        ]
        return Lateness(allowed, tuple(kept))

    def plain(self) -> list[Any]:
        """Return the lateness as plain data."""
        return [self.allowed, [list(pair) for pair in self.before]]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Return the lateness that was saved, or raise ValueError."""
        allowed, before = plain
        durations = [allowed, *(old for _, old in before)]
        times = [at for at, _ in before]
        if not all(type(n) is int for n in (*durations, *times)):
            raise TypeError("a lateness and the watermarks at its changes are whole numbers")
        if any(not 0 <= d <= FAR for d in durations) or any(abs(t) > END_OF_TIME for t in times):
            raise ValueError(f"a lateness of {durations}, changed at {times}")
        return cls(allowed, tuple((at, old) for at, old in before))

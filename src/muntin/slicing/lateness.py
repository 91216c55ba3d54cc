"""How late a row may be, in a query whose lateness may have been changed."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from muntin.slicing.limits import END_OF_TIME, FAR, Array, less


@dataclass(frozen=True)
class Lateness:
    """How long after its end a window still changes.

    A raised lateness holds for windows that end after the watermark at the change. `before` has a pair
    (watermark, lateness) per change: windows that end by that watermark keep that lateness. A lowered
    one holds as soon as the watermark moves: `until` has the watermark at the change, and what holds
    until then.
    """

    allowed: int
    before: tuple[tuple[int, int], ...] = ()
    until: "tuple[int, Lateness] | None" = None

    def past(self, watermark: Array) -> Array:
        """Return for each watermark the end up to which windows do not change any more."""
        past = less(watermark, self.allowed)
        for at, allowed in self.before:
            past = np.maximum(past, np.minimum(less(watermark, allowed), at))
        if self.until is not None:
            at, earlier = self.until
            past = np.where(watermark <= at, earlier.past(watermark), past)
        return past

    @property
    def longest(self) -> int:
        """The longest lateness that a window may have."""
        earlier = 0 if self.until is None else self.until[1].longest
        return max(self.allowed, *(allowed for _, allowed in self.before), earlier)

    def changed(self, allowed: int, watermark: int | None) -> "Lateness":
        """Return the lateness after a change at a watermark; None if there is no watermark yet."""
        if allowed == self.allowed or watermark is None:
            return Lateness(allowed) if watermark is None else self
        before = (*self.before, (watermark, self.allowed))
        kept = [(at, old) for at, old in before if old < allowed and at > watermark - allowed]
        until = self.until if self.until is not None and self.until[0] == watermark else None
        if until is None and allowed < self.allowed:
            until = watermark, replace(self, until=None)
        return Lateness(allowed, tuple(kept), until)

    def plain(self) -> list[Any]:
        """Return the lateness as plain data."""
        until = None if self.until is None else [self.until[0], self.until[1].plain()]
        return [self.allowed, [list(pair) for pair in self.before], until]

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Return the lateness that was saved, or raise ValueError."""
        allowed, before, until = plain
        durations = [allowed, *(old for _, old in before)]
        times = [at for at, _ in before] + ([] if until is None else until[:1])
        if not all(type(n) is int for n in (*durations, *times)):
            raise TypeError("a lateness and the watermarks at its changes are whole numbers")
        if any(not 0 <= d <= FAR for d in durations) or any(abs(t) > END_OF_TIME for t in times):
            raise ValueError(f"a lateness of {durations}, changed at {times}")
        held = None if until is None else (until[0], cls.from_plain(until[1]))
        return cls(allowed, tuple((at, old) for at, old in before), held)

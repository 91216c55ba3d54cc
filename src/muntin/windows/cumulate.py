"""Windows that share a start and grow step by step until they are full."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from muntin.windows.periodic import _length, _origin, check_alike
from muntin.windows.window import ContextFreeWindow


@dataclass(frozen=True, repr=False)
class Cumulate(ContextFreeWindow):
    """Windows [k * size, k * size + j * step) for every whole k, and j from 1 to size / step.

    >>> Cumulate("1 day", "1 hour"), list(Cumulate(30, 10).closed(0, 50))
    (<Cumulate 1 d by 1 h>, [(0, 10), (0, 20), (0, 30), (30, 40), (30, 50)])
    """

    size: int
    step: int
    origin: int

    def __init__(self, size: Any, step: Any, *, origin: Any = 0) -> None:
        check_alike(size=size, step=step)
        length, growth = _length("size", size, "time"), _length("step", step, "time")
        if length % growth:
            raise ValueError(f"step={step!r} must divide size={size!r}")
        object.__setattr__(self, "size", length)
        object.__setattr__(self, "step", growth)
        object.__setattr__(self, "origin", _origin(origin, "time"))

    def __repr__(self) -> str:
        return f"<{self.describe()}>"

    def describe(self) -> str:
        start = f" from {self.origin}" if self.origin else ""
        return f"Cumulate {self.size} by {self.step}{start}"

    @property
    def gapless(self) -> bool:
        return True

    @property
    def longest(self) -> int:
        return self.size

    def next_edge(self, t: int) -> int:
        """Return the first end after t; windows start where others end."""
        return (t - self.origin) // self.step * self.step + self.step + self.origin

    def closed(self, after: int, upto: int) -> Iterator[tuple[int, int]]:
        """Return the windows with after < end <= upto."""
        end = self.next_edge(after)
        while end <= upto:
            yield (end - 1 - self.origin) // self.size * self.size + self.origin, end
            end += self.step

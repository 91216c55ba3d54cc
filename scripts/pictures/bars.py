"""What a picture of a window shows: stored partials as bars over the values they stand for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

VALUE, SUFFIX, PREFIX, STRETCH = "value", "suffix", "prefix", "stretch"


@dataclass(frozen=True)
class Bar:
    """One stored partial: its row, its kind, and what is written in each column that it covers."""

    row: int
    kind: str
    cells: tuple[tuple[int, str], ...]
    beside: bool = False

    @property
    def text(self) -> str:
        """What is written in the bar."""
        return "".join(letter for _, letter in self.cells)


@dataclass(frozen=True)
class State:
    """The stored partials of a window, the names of rows, and where pointers point."""

    bars: list[Bar]
    rows: int
    labels: Mapping[int, str] = field(default_factory=dict)
    pointers: Sequence[tuple[str, int]] = ()
    columns: Sequence[str] | None = None


@dataclass(frozen=True)
class Panel:
    """A window after one step of its run."""

    title: str
    cost: str
    state: State
    columns: Sequence[tuple[int, str]]
    content: str
    made: frozenset[Bar]
    read: Sequence[str]


Place = Callable[[str], int]


def by_letter(letter: str) -> int:
    """Return the column of a letter when values lie in the order of the stream."""
    return ord(letter) - ord("a")


def bar(row: int, kind: str, text: str, place: Place = by_letter, *, beside: bool = False) -> Bar:
    """Return a bar over the columns of the letters that a partial is made of."""
    return Bar(row, kind, tuple(sorted((place(letter), letter) for letter in text)), beside)

"""The runs that the pictures of the algorithms show, step by step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

import muntin as mt
from scripts.pictures.bars import PREFIX, STRETCH, SUFFIX, VALUE, Bar, Panel, State
from scripts.pictures.states import STATES
from scripts.pictures.watched import Watch, parts_read

Step = tuple[str, Callable[[Any], Any]]
GONE_SHOWN = 2


@dataclass(frozen=True)
class Scene:
    """A window and what is done to it: in silence at first, then one panel for each step."""

    steps: Sequence[Step]
    before: Callable[[Any], Any] | None = None
    make: Callable[[Any], Any] | None = None
    digits: str = ""
    query_writes: bool = False
    meaning: Mapping[str, str] = field(default_factory=dict)


def insert(values: Any) -> Callable[[Any], None]:
    """Return a step that inserts values one by one."""

    def step(window: Any) -> None:
        for value in values:
            window.insert(value)

    return step


def evict(n: int, then: Any = "") -> Callable[[Any], None]:
    """Return a step that evicts some values, then inserts others."""

    def step(window: Any) -> None:
        for _ in range(n):
            window.evict()
        insert(then)(window)

    return step


def at_times(letters: str) -> Callable[[mt.Fiba], None]:
    """Return a step that inserts letters at their own times: their place in the alphabet."""

    def step(window: mt.Fiba) -> None:
        for letter in letters:
            window.insert(ord(letter), letter)

    return step


def settled(step: Callable[[Any], Any]) -> Callable[[mt.FlatFat], None]:
    """Return a step after which FlatFAT's changes are applied, as the next query would."""

    def both(window: mt.FlatFat) -> None:
        step(window)
        window.prefix(0)

    return both


EIGHT = ("insert a to h", insert("abcdefgh"))
SLIDES = [EIGHT, ("evict a", evict(1)), ("evict b, c, insert i, j", evict(2, "ij"))]
DABA = [
    ("insert a to g", insert("abcdefg")),
    ("insert h: flip", insert("h")),
    ("insert i, evict a", lambda window: (window.insert("i"), window.evict())),
]
CHUNKS = [
    EIGHT,
    ("slide: a, b out, i, j in", evict(2, "ij")),
    ("slide: c, d out, k, l in", evict(2, "kl")),
]
CHUNK_WORDS = {VALUE: "a slice", SUFFIX: "lcs", PREFIX: "csa", STRETCH: "ca"}
TREE_WORDS = {VALUE: "a leaf", STRETCH: "a node"}

SCENES: dict[str, Scene] = {
    "Recalc": Scene([EIGHT, ("evict a, insert i", evict(1, "i"))]),
    "SubtractOnEvict": Scene(
        [EIGHT, ("evict a", evict(1)), ("insert i", insert("i"))], meaning={PREFIX: "the total"}
    ),
    "TwoStacks": Scene(SLIDES),
    "TwoStacksLite": Scene(SLIDES),
    "Daba": Scene(DABA),
    "DabaLite": Scene(DABA),
    "SlickDeque": Scene(
        [
            ("insert 3 9 4 6 1 2", insert([3, 9, 4, 6, 1, 2])),
            ("insert 5", insert([5])),
            ("evict 3 and 9", evict(2)),
        ],
        digits="3946125",
        meaning={SUFFIX: "kept: the largest of what it covers"},
    ),
    "FlatFit": Scene(
        [
            EIGHT,
            ("query, evict a, insert i", evict(1, "i")),
            ("query, evict b, insert j", evict(1, "j")),
        ],
        query_writes=True,
        meaning={SUFFIX: "as far as its index reaches"},
    ),
    "FlatFat": Scene(
        [
            ("insert a to h", settled(insert("abcdefgh"))),
            ("evict a to c, insert i, j", settled(evict(3, "ij"))),
            ("remove f", settled(lambda window: window.remove(2))),
        ],
        meaning=TREE_WORDS,
    ),
    "BInt": Scene(
        [("insert a to k", insert("abcdefghijk")), ("evict a, insert l", evict(1, "l"))],
        meaning={STRETCH: "a base interval"},
    ),
    "Sba": Scene(CHUNKS, make=lambda text: mt.Sba(text, range=8, slide=2), meaning=CHUNK_WORDS),
    "Pba": Scene(CHUNKS, make=lambda text: mt.Pba(text, range=8, slide=2), meaning=CHUNK_WORDS),
    "LogMta": Scene(
        [("insert l", insert("l")), ("evict the oldest 5", lambda window: window.bulk_evict(5))],
        before=insert("abcdefghijk"),
        meaning=TREE_WORDS,
    ),
    "Amta": Scene(
        [
            ("insert j", insert("j")),
            ("insert k", insert("k")),
            ("evict the oldest 4", lambda window: window.bulk_evict(4)),
        ],
        before=insert("abcdefghi"),
        meaning={**TREE_WORDS, SUFFIX: "stack and R0", PREFIX: "R1"},
    ),
    "Fiba": Scene(
        [
            ("insert h, late", at_times("h")),
            ("evict until d", lambda window: window.evict_until(ord("d"))),
        ],
        before=at_times("abcdefgijklmno"),
        meaning={
            VALUE: "a node's values",
            SUFFIX: "left spine",
            PREFIX: "right spine",
            STRETCH: "inside",
        },
    ),
}


def panels(name: str) -> list[Panel]:
    """Run the scene of an algorithm and return what is to be seen after each step."""
    scene, watch = SCENES[name], Watch()
    make = scene.make or mt.ALGORITHMS[name]
    window = make(watch.over(mt.Max()) if scene.digits else watch.text())
    before: set[tuple[str, str]] = set()
    if scene.before is not None:
        scene.before(window)
        before = {_lasting(bar) for bar in STATES[name](window).bars}
        watch.look()
    shown: list[Panel] = []
    for title, step in scene.steps:
        step(window)
        state = STATES[name](window)
        _, cost = watch.look()
        result = window.query()
        read = parts_read(watch.calls, result)
        if not scene.query_writes:  # then it is a part of the next step
            watch.look()
        content = _digits(scene, window) if scene.digits else str(result)
        made = frozenset(bar for bar in state.bars if _lasting(bar) not in before)
        shown.append(
            Panel(title, cost, state, _columns(scene, state, content), content, made, read)
        )
        before = {_lasting(bar) for bar in state.bars}
    return shown


def _lasting(bar: Bar) -> tuple[str, str]:
    """Return what stays the same of a partial while the window moves on."""
    return bar.kind, bar.text


def _digits(scene: Scene, window: Any) -> str:
    deque = window._variant
    return scene.digits[deque._f : deque._e]


def _columns(scene: Scene, state: State, content: str) -> list[tuple[int, str]]:
    """Return what is written below the columns: the window, and a little of what has left."""
    if state.columns is not None:
        return list(enumerate(state.columns))
    letters = scene.digits or ascii_lowercase
    first, end = letters.index(min(content, key=letters.index)), letters.index(content[-1]) + 1
    covered = [column for bar in state.bars for column, _ in bar.cells]
    first = min(max(first - GONE_SHOWN, 0), *covered)
    return list(enumerate(letters[:end]))[first:]

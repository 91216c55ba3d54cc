"""Rows on their way to the lanes of an operator; some lanes see lives in place of keys."""

from dataclasses import replace

import numpy as np

from muntin.journal import Journal
from muntin.query.operator_state import OperatorState
from muntin.slicing.lane import Lane
from muntin.slicing.limits import ALWAYS, NEVER, Array
from muntin.slicing.lives import AGGREGATE, WINDOW, Lives
from muntin.slicing.rows import Inputs, Rows

ALL = np.ones(1, np.bool_)
"""In place of marks, if nothing was added while rows waited."""


class Feeding:
    """Gives rows to the lanes of one operator within one call."""

    def __init__(self, state: OperatorState, ordered: bool, journal: Journal) -> None:
        self._state, self._ordered, self._journal = state, ordered, journal

    def give(self, rows: Rows, inputs: dict[str, Inputs]) -> list[Array | None]:
        """Give rows to all lanes, with the inputs of each aggregate; return which of them count."""
        state = self._state
        counted = [] if state.lives is None else [self._live(rows, state.lives, inputs)]
        lanes = [lane for lane in state.lanes if not state.sees_lives(lane)]
        return counted + self._give(
            [(n, replace(rows, inputs=[inputs[name] for name in n.aggregates])) for n in lanes]
        )

    def release(self, upto: int, past: int) -> None:
        """Give rows that waited, up to a time, to lanes, if their life is known by now."""
        lives = self._state.lives
        if lives is not None:
            rows = lives.released(upto, past, self._journal)
            if rows is not None:
                self._enliven(rows, lives)
            lives.forget_added(past)

    def _give(self, given: list[tuple[Lane, Rows]]) -> list[Array | None]:
        """Give rows to some lanes, each in its turn; return for each which of them count."""
        given = sorted(given, key=lambda pair: pair[0].turn)
        admitted = [lane.admit(rows, self._journal) for lane, rows in given]
        for (lane, _), (_, prepared) in zip(given, admitted, strict=True):
            if prepared is not None:
                lane.commit(prepared, self._journal)
        return [counts for counts, _ in admitted]

    def _live(self, rows: Rows, lives: Lives, inputs: dict[str, Inputs]) -> Array | None:
        """Find the lives of rows, or let them wait for them; return which rows are not too late."""
        counts: Array = rows.times >= self._state.past
        lanes = self._state.lanes_of_lives
        timely = replace(rows, inputs=[inputs[name] for name in lives.names])
        mine = lives.marked(timely.take(np.nonzero(counts)[0]), lanes)
        for lane in lanes:
            lane.try_rows(_seen(mine, lane, lives)[0])
        if not self._ordered:
            lives.wait(mine)
        elif len(mine):
            known, _ = lives.assign(mine, NEVER, self._journal)
            self._enliven(known, lives)
        return counts

    def _enliven(self, rows: Rows, lives: Lives) -> None:
        """Give rows of which the life is known to the lanes that see lives."""
        self._state.grow_keys()
        given = []
        for lane in self._state.lanes_of_lives:
            mine, missed = _seen(rows, lane, lives)
            lane.miss(lives.strange, np.full(len(lives.strange), ALWAYS + 1), self._journal)
            lane.miss(rows.keys[missed], rows.times[missed], self._journal)
            given += [(lane, mine)] if len(mine) else []
        self._give(given)
        for lane, mine in given:
            for i, name in enumerate(lane.aggregates):
                lacks = ~mine.extra.get((AGGREGATE, name), ALL)
                if lacks.any():
                    lane.lack(i, mine.take(np.nonzero(lacks)[0]), self._journal)


def _seen(rows: Rows, lane: Lane, lives: Lives) -> tuple[Rows, Array]:
    """Return the rows that count for a lane, as it takes them, and which of all do not."""
    mine = replace(rows, inputs=[rows.inputs[lives.names.index(n)] for n in lane.aggregates])
    sees = rows.extra.get((WINDOW, lane.names[0]), ALL)
    if sees.all():
        return mine, np.zeros(0, np.int64)
    return mine.take(np.nonzero(sees)[0]), np.nonzero(~sees)[0]

"""Rows on their way to the lanes of an operator; some lanes see lives in place of keys."""

from dataclasses import replace
from operator import attrgetter

import numpy as np

from muntin.journal import Journal
from muntin.query.operator_state import OperatorState
from muntin.slicing.lane import Lane
from muntin.slicing.limits import NEVER, Array
from muntin.slicing.lives import Lives
from muntin.slicing.rows import Inputs, Rows


class Feeding:
    """Gives rows to the lanes of one operator within one call."""

    def __init__(self, state: OperatorState, ordered: bool, journal: Journal) -> None:
        self._state, self._ordered, self._journal = state, ordered, journal

    def give(self, rows: Rows, inputs: dict[str, Inputs]) -> list[Array | None]:
        """Give rows to all lanes, with the inputs of each aggregate; return which of them count."""
        state = self._state
        counted = [] if state.lives is None else [self._live(rows, state.lives, inputs)]
        lanes = [lane for lane in state.lanes if not state.sees_lives(lane)]
        return counted + self._give(lanes, rows, inputs)

    def release(self, upto: int, past: int) -> None:
        """Give rows that waited, up to a time, to lanes, if their life is known by now."""
        lives = self._state.lives
        if lives is not None:
            rows = lives.released(upto, past, self._journal)
            if rows is not None:
                self._enliven(rows, lives)

    def _give(self, lanes: list[Lane], rows: Rows, inputs: dict[str, Inputs]) -> list[Array | None]:
        """Give rows to some lanes, each in its turn; return for each which of them count."""
        lanes = sorted(lanes, key=attrgetter("turn"))
        admitted = [
            lane.admit(
                replace(rows, inputs=[inputs[name] for name in lane.aggregates]), self._journal
            )
            for lane in lanes
        ]
        for lane, (_, prepared) in zip(lanes, admitted, strict=True):
            if prepared is not None:
                lane.commit(prepared, self._journal)
        return [counts for counts, _ in admitted]

    def _live(self, rows: Rows, lives: Lives, inputs: dict[str, Inputs]) -> Array | None:
        """Find the lives of rows, or let them wait for them; return which rows are not too late."""
        counts: Array = rows.times >= self._state.past
        which = np.nonzero(counts)[0]
        mine = replace(rows, inputs=[inputs[name] for name in lives.names]).take(which)
        for lane in self._state.lanes_of_lives:
            lane.try_rows(
                replace(mine, inputs=[mine.inputs[lives.names.index(n)] for n in lane.aggregates])
            )
        if not self._ordered:
            lives.wait(mine)
        elif len(mine):
            known, _ = lives.assign(mine, NEVER, self._journal)
            self._enliven(known, lives)
        return counts

    def _enliven(self, rows: Rows, lives: Lives) -> None:
        """Give rows of which the life is known to the lanes that see lives."""
        self._state.grow_keys()
        inputs = dict(zip(lives.names, rows.inputs, strict=True))
        self._give(self._state.lanes_of_lives, rows, inputs)

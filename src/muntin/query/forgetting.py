"""Keys, and lives of keys, of which nothing more can be reported are forgotten.

Numbers of keys are given back when most of them are of no use: a change that cannot be undone.
"""

import numpy as np

from muntin.journal import Journal
from muntin.query.operator_state import OperatorState
from muntin.slicing.limits import ALWAYS

FEW_LIVES = 64
"""Fewer lives that have ended are not worth the work of forgetting them."""


def forget_keys(state: OperatorState, ordered: bool, journal: Journal) -> int:
    """Forget keys of which nothing is left, if they are most of all; return how many are left."""
    keys = len(state.keys)
    each = [lane.alive() for lane in state.lanes if not state.sees_lives(lane)]
    if state.lives is not None:
        forget_lives(state, ordered, journal, all_of_them=True)
        each.append(state.lives.alive(keys))
        each += [lane.known_keys(keys, state.past) for lane in state.lanes_of_lives]
    alive = np.logical_or.reduce([np.zeros(keys, np.bool_), *each])
    if state.watermark is not None:  # rows may still come before its last one
        late = 0 if ordered else state.lateness.longest
        alive |= state.last[:keys] > state.watermark - late
    left = int(np.count_nonzero(alive))
    if 2 * left > keys:
        return left
    journal.no_return()
    state.keys.keep(alive)
    for lane in state.lanes:
        if state.sees_lives(lane):
            lane.keep_known_keys(alive)
        else:
            lane.keep_keys(alive)
    if state.lives is not None:
        state.lives.keep_keys(alive)
    gone = state.last[:keys][~alive]
    state.forgotten = max(state.forgotten, int(gone.max(initial=ALWAYS)))
    state.last = state.last[:keys][alive]
    state.grow_keys()
    return left


def forget_lives(
    state: OperatorState, ordered: bool, journal: Journal, all_of_them: bool = False
) -> None:
    """Forget lives that have ended, when they are most of those there are, or all of them."""
    lives, watermark = state.lives, state.watermark
    if lives is None or not len(lives):
        return
    past = np.array([state.past])
    if ordered:
        past = np.maximum(state.last, ALWAYS if watermark is None else past)
    unsaid = [lane.unsaid() for lane in state.lanes_of_lives]
    alive = np.logical_or.reduce([lives.open(past), *unsaid])
    ended = len(alive) - int(np.count_nonzero(alive))
    if not ended or (not all_of_them and (ended < FEW_LIVES or 2 * ended < len(alive))):
        return
    journal.no_return()
    for lane in state.lanes_of_lives:
        lane.keep_keys(alive)
    lives.keep(alive)
    state.grow_keys()

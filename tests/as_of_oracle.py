"""What each window holds at a time, by its words: lists of rows, one label after the other."""

from itertools import groupby

import muntin as mt
from muntin.windows import Fired
from tests.window_oracle import expired, fold


class Row:
    """A row of one key, as `fold` takes it."""

    def __init__(self, t, values):
        self.t, self.values = t, values


def as_of_rows(labels, events, query, at, *, include_equal=False, known=None):
    """Return for each label {window_aggregate: value}; labels and events are lists of dicts."""
    answers = []
    for label in labels:
        t = label[at]
        mine = [
            Row(event[query.time], event)
            for event in sorted(events, key=lambda event: event[query.time])
            if all(event[key] == label[key] for key in query.keys)
            and (event[query.time] < t or (include_equal and event[query.time] == t))
            and (known is None or event[known] <= t)
        ]
        answers.append(answer(query, mine, t))
    return answers


def answer(query, rows, t):
    """Return {window_aggregate: value} over the rows of one key that are before t."""
    return {
        f"{name}_{column}": fold(query.aggregates[column], content(query, window, rows, t))
        for name, window in query.windows.items()
        for column in query.aggregates_of(name)
    }


def content(query, window, rows, t):
    """Return the rows that a window holds at t."""
    if isinstance(window, mt.Sliding):
        start = (t - window.size - window.origin) // window.every * window.every + window.origin
        return [row for row in rows if row.t >= start]
    if isinstance(window, Fired):
        return [row for row in rows if row.t > t - window.size]
    if isinstance(window, mt.Session):
        return last_stretch(rows, t, window.gap)
    if isinstance(window, mt.ContextFreeWindow):
        start = next((s for s, end in window.closed(t, t + 10_000) if s <= t < end), t + 1)
        return [row for row in rows if row.t >= start]
    rows = rows if query.limit is None else last_stretch(rows, t, query.limit)
    if isinstance(window, mt.LastN):
        return rows[-window.n :]
    if isinstance(window, mt.Policy):
        return left(window, rows, t)
    return since_opening(window, rows)


def last_stretch(rows, t, gap):
    """Return the last rows of which neighbours are at most a gap apart, if t is not later than that."""
    if not rows or t - rows[-1].t > gap:
        return []
    first = len(rows) - 1
    while first and rows[first].t - rows[first - 1].t <= gap:
        first -= 1
    return rows[first:]


def since_opening(window, rows):
    start = None
    for moment, group in groupby(rows, key=lambda row: row.t):
        if any(window.opens(None, moment, row.values) for row in group):
            start = moment
    return [row for row in rows if start is None or row.t >= start]


def left(window, rows, t):
    """Return what a policy left: it is enforced after each row, at each tick, and at t."""
    policy, kept = window.policy, []

    def let_go(goes):
        lengths = (n for n in range(len(kept), 0, -1) if goes(fold(policy.aggregate, kept[:n])))
        del kept[: next(lengths, 0)]

    before = None
    for row in rows:
        tick = window.first_end(row.t) - window.every
        if before is not None and tick > before:
            let_go(lambda old, tick=tick: expired(policy, tick, old))
        kept.append(row)
        total = fold(policy.aggregate, kept)
        let_go(lambda old, total=total: policy.holds(total, old))
        before = row.t
    let_go(lambda old: expired(policy, t, old))
    return kept

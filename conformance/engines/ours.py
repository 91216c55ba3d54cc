"""Our own operator and `rolling`."""

from typing import Any

import pyarrow as pa

import muntin as mt
from conformance.cases import Case, Row
from conformance.engines.asked import moment


def at_once(case: Case) -> list[Row]:
    """Give all rows in one batch; a stream takes its steps."""
    if case.rolls:
        return rolled(case)
    if case.steps is not None:
        return stepped(case, together=True)
    return read(case.query().run(table(case.rows)), case)


def row_by_row(case: Case) -> list[Row]:
    """Give each row in a batch of its own."""
    if case.rolls:
        return rolled_in_parts(case)
    if case.steps is not None:
        return stepped(case, together=False)
    operator = case.query().operator()
    found = []
    whole = table(case.rows)
    for i in range(whole.num_rows):
        found += read(operator.process(whole.slice(i, 1)), case)
    return found + read(operator.complete(), case)


def stepped(case: Case, *, together: bool) -> list[Row]:
    """Take the steps of a stream: rows, and watermarks; `complete` ends it."""
    operator, found = case.query().operator(), []
    for step in case.steps or []:
        if "advance" in step:
            found += read(operator.advance(step["advance"]), case)
        elif "complete" in step:
            found += read(operator.complete(), case)
        else:
            rows = table(step["rows"])
            parts = [rows] if together else [rows.slice(i, 1) for i in range(rows.num_rows)]
            for part in parts:
                found += read(operator.process(part), case)
    return found


def table(rows: list[Row]) -> pa.Table:
    """Return rows as an Arrow table; texts in `t` are dates and times."""
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in rows[0]}
    return pa.table(columns | {"t": [moment(t) for t in columns["t"]]})


def read(results: pa.Table, case: Case) -> list[Row]:
    """Return results with the columns that the case names."""
    named = case.expected[0].keys() if case.expected else ()
    found = []
    for row in results.to_pylist():
        values = {name: row[name] for name in named}
        found.append({name: iso(value) for name, value in values.items()})
    return found


def iso(value: Any) -> Any:
    """Return a moment as the text that cases have."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def rolled(case: Case) -> list[Row]:
    """Return a result per row."""
    options, rows = case.rolling(), table(case.rows)
    ((name, aggregate),) = case.aggregates().items()
    on = options.pop("on", None)
    more = {} if on is None else {"on": rows[on]}
    by = options.pop("by", None)
    more |= {} if by is None else {"by": rows[by]}
    results = mt.rolling(rows, options.pop("size"), aggregate, **more, **options)
    return [{name: value} for value in pa.array(results).to_pylist()]


def rolled_in_parts(case: Case) -> list[Row]:
    """Return a result per row, of a window that gets one row at a time where that is possible."""
    options = case.rolling()
    if {*options} - {"size", "min_periods"}:
        return rolled(case)
    ((name, aggregate),) = case.aggregates().items()
    stream = mt.Rolling(options.pop("size"), aggregate, **options)
    (column,) = aggregate.columns
    values, found = table(case.rows)[column].combine_chunks(), []
    for i in range(len(values)):
        found += pa.array(stream.push(values.slice(i, 1))).to_pylist()
    return [{name: value} for value in found]

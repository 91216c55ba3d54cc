"""Arrow in JSON: keys and times in, results out; nothing is rounded or cut on the way.

JSON has texts, numbers, true, false and null. Times, dates and decimals are texts, of ISO 8601 where
there is a rule. Numbers that JSON lacks are the texts NaN, Infinity and -Infinity. A duration is a whole
number of its unit, a map a list of pairs, bytes are in Base64.
"""

import base64
import json
import math
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from muntin.endpoint.refusal import Refusal, shown, unusable

UNWRITABLE = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    OverflowError,
    UnicodeEncodeError,
)
"""What Arrow raises of a value that a type cannot hold."""
TIMES = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
"""As what a text is read as a time: without an offset, and with one."""


class Form(NamedTuple):
    """How a type of Arrow is written in JSON."""

    name: str  # in OpenAPI
    what: str  # in sentences
    python: tuple[type, ...]
    form: str = ""  # the format in OpenAPI


WHOLE = Form("integer", "a whole number", (int,))
FLOAT = Form("number", "a number", (int, float))
TEXT = Form("string", "a text", (str,))
TRUTH = Form("boolean", "true or false", (bool,))
MOMENT = Form("string", "a time as text, as 2026-03-08T20:00:00", (str,), "date-time")
DAY = Form("string", "a date as text, as 2026-03-08", (str,), "date")
DECIMAL = Form("string", "a decimal number as text, as 12.50", (str,))
FORMS: list[tuple[Callable[[pa.DataType], bool], Form]] = [
    (pa.types.is_integer, WHOLE),
    (pa.types.is_floating, FLOAT),
    (pa.types.is_boolean, TRUTH),
    (pa.types.is_string, TEXT),
    (pa.types.is_large_string, TEXT),
    (pa.types.is_timestamp, MOMENT),
    (pa.types.is_date, DAY),
    (pa.types.is_decimal, DECIMAL),
]


def form_of(kind: pa.DataType) -> Form | None:
    """Return how values of a type are written in a request; None if they cannot be.

    >>> form_of(pa.int64()).name, form_of(pa.binary())
    ('integer', None)
    """
    return next((form for known, form in FORMS if known(kind)), None)


def read_json(body: bytes) -> Any:
    """Return what a body says, or refuse what is not JSON, or not clear."""
    try:
        return json.loads(body.decode(), parse_constant=_constant, object_pairs_hook=_unique)
    except RecursionError:
        reason = "it is too deep"
    except ValueError as error:  # of JSON, of UTF-8, of a number with too many digits
        reason = str(error)
    raise Refusal(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {reason}")


def read_column(values: list[Any], kind: pa.DataType, name: str) -> pa.Array:
    """Return the values of a key as a column of its type, or refuse the first that is of another."""
    for i, value in enumerate(values):
        _check(value, kind, f"keys[{i}], {name!r}")
    try:
        return _column(values, kind)
    except UNWRITABLE:
        for i, value in enumerate(values):
            try:
                _column([value], kind)
            except UNWRITABLE as error:
                raise _mismatch(value, kind, f"keys[{i}], {name!r}") from error
        raise


def read_time(value: Any, kind: pa.DataType) -> int:
    """Return a time in the unit of lookups: as it is where times are numbers, else in microseconds."""
    if pa.types.is_integer(kind):
        _check(value, kind, "'at'")
        return int(value)
    _check(value, TIMES[0], "'at'")
    for wanted in TIMES:
        try:
            return int(pa.scalar(value, pa.string()).cast(wanted).value)
        except UNWRITABLE:
            continue
    raise _mismatch(value, TIMES[0], "'at'")


def written(column: pa.Array) -> list[Any]:
    """Return a column of results as JSON has its values.

    >>> written(pa.array([1.5, float("nan"), None]))
    [1.5, 'NaN', None]
    """
    kind = column.type
    if pa.types.is_floating(kind):
        return [_number(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        zoned = kind if kind.tz is None else pa.timestamp(kind.unit, "UTC")
        texts = column.cast(zoned).cast(pa.string()).to_pylist()
        return [text and text.replace(" ", "T") for text in texts]
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_decimal(kind):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_duration(kind):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [value and base64.b64encode(value).decode() for value in column.to_pylist()]
    if pa.types.is_dictionary(kind):
        return written(column.dictionary_decode())
    return _nested(column)


def _nested(column: pa.Array) -> list[Any]:
    """Return lists, maps and structs as JSON has them, and all else as it is."""
    kind = column.type
    if pa.types.is_map(kind):
        pairs = [pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]
        return written(column.cast(pa.list_(pa.struct(pairs))))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        items = iter(written(column.flatten()))
        sizes = pc.list_value_length(column).to_pylist()
        return [None if n is None else [next(items) for _ in range(n)] for n in sizes]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        parts = [written(part) for part in column.flatten()]
        present = column.is_valid().to_pylist()
        rows = zip(*parts, strict=True) if parts else (() for _ in present)
        return [
            dict(zip(names, row, strict=True)) if there else None
            for row, there in zip(rows, present, strict=True)
        ]
    return list(column.to_pylist())


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{shown(twice)} is there twice in one object")
    return found


def _check(value: Any, kind: pa.DataType, place: str) -> None:
    """Refuse a value of another kind than its place has."""
    form = form_of(kind)
    assert form is not None
    if value is None and place != "'at'":
        return
    if type(value) not in form.python:
        raise _mismatch(value, kind, place)
    if form is FLOAT:
        number = _as_float(value)
        if not math.isfinite(number) or number != value:
            raise _mismatch(value, kind, place)


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column; texts are read as Arrow reads them."""
    form = form_of(kind)
    assert form is not None
    if form in (MOMENT, DAY, DECIMAL):
        return pa.array(values, pa.string()).cast(kind)
    if form is FLOAT:
        return _floats([None if value is None else float(value) for value in values], values, kind)
    return pa.array(values, kind)


def _floats(numbers: list[float | None], values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers in a type that may be narrower: whole ones stay what they are, none is infinite."""
    column = pa.array(numbers, pa.float64()).cast(kind)
    for value, held in zip(values, column.to_pylist(), strict=True):
        if held is not None and (math.isinf(held) or (type(value) is int and held != value)):
            raise pa.ArrowInvalid(f"{shown(value)} does not fit")
    return column


def _mismatch(value: Any, kind: pa.DataType, place: str) -> Refusal:
    form = form_of(kind)
    assert form is not None
    return unusable(f"{place}: this is {form.what} (Arrow's {kind}), got {shown(value)}")


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

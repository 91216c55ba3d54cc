"""Plain data to bytes and back, with a version and a checksum, and without running anything.

A sealed message is magic, format version, checksum of the body (XXH3, 128 bits), body. The body is
MessagePack, with extension types for what Python has beyond it. Whole numbers in arrays are written as
distances from the least of their column, in as few bytes as they take. Reading builds only the types
listed here: nothing in the bytes can name code. Every defect in what is read is one SnapshotError.
"""

import datetime as dt
import decimal
import fractions
import struct
import uuid
from collections.abc import Callable
from typing import Any

import msgpack
import xxhash

MAGIC = b"MNTN"
VERSION = 2
HEADER = struct.Struct(">4sH16s")
DEEPEST = 32  # nested tuples and the like; deeper ones could exhaust the stack while they are read
DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
)
"""What reading damaged or forged content may raise."""


class SnapshotError(ValueError):
    """The bytes are not a snapshot that can be restored here; the message says why."""


def seal(content: Any) -> bytes:
    """Encode plain data as a versioned message with a checksum.

    >>> unseal(seal({"window": (1, 2.5, None)}))
    {'window': (1, 2.5, None)}
    """
    body: bytes = _pack(content)
    return HEADER.pack(MAGIC, VERSION, _checksum(body)) + body


def unseal(message: bytes) -> Any:
    """Decode what seal made, or raise SnapshotError."""
    if not isinstance(message, bytes | bytearray | memoryview):
        raise SnapshotError(f"a snapshot is bytes, got {type(message).__name__}")
    view = memoryview(message)
    if len(view) < HEADER.size or view[: len(MAGIC)] != MAGIC:
        raise SnapshotError("these bytes are not a muntin snapshot (no MNTN header)")
    _, version, checksum = HEADER.unpack_from(view)
    if version != VERSION:
        raise SnapshotError(
            f"snapshot format {version} cannot be read here; this muntin reads {VERSION}"
        )
    body = view[HEADER.size :]
    if _checksum(body) != checksum:
        raise SnapshotError("the snapshot is truncated or altered: its checksum does not match")
    try:
        return _unpack(body)
    except DAMAGE as error:
        raise SnapshotError(f"the snapshot's content cannot be decoded: {error}") from error


def _checksum(body: bytes | memoryview) -> bytes:
    return xxhash.xxh3_128_digest(body)


def _pack(value: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"plain data may be nested {DEEPEST} deep, and this is deeper")

    def extension(inner: Any) -> Any:
        return _pack_extension(inner, depth + 1)

    return msgpack.packb(value, default=extension, strict_types=True)


def _unpack(body: bytes | memoryview, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")

    def extension(code: int, inner: bytes) -> Any:
        return _unpack_extension(code, inner, depth + 1)

    return msgpack.unpackb(body, ext_hook=extension, strict_map_key=False)


def _pack_extension(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _CODE_OF_TYPE:
        code = _CODE_OF_TYPE[kind]
        return msgpack.ExtType(code, _pack(_EXTENSIONS[code][1](value), depth))
    if kind.__module__ == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject:
        return msgpack.ExtType(_NUMPY, _pack(_numpy_parts(value), depth))
    raise TypeError(
        f"a partial of type {kind.__qualname__} cannot be written: give the aggregate encode= and "
        "decode= functions that turn it into plain data (numbers, text, bytes, tuples, lists, dicts)"
    )


def _unpack_extension(code: int, body: bytes, depth: int) -> Any:
    content = _unpack(body, depth)
    if code == _NUMPY:
        return _numpy_value(*content)
    if code not in _EXTENSIONS:
        raise ValueError(f"unknown extension type {code}")
    return _EXTENSIONS[code][2](content)


def _numpy_parts(value: Any) -> list[Any]:
    """Return dtype, shape, and bytes: of whole numbers each column's least and distances from it."""
    if value.dtype.str == _WHOLE and value.size and value.ndim in (1, 2):
        columns = [_distances(column) for column in value.reshape(len(value), -1).T]
        return [value.dtype.str, value.shape, columns]
    return [value.dtype.str, value.shape, value.tobytes()]


def _distances(column: Any) -> list[Any]:
    least = int(column.min())
    span = int(column.max()) - least
    dtype = next((d for d in _DISTANCES if span < 256 ** int(d[-1])), None)
    if dtype is None:
        return [0, column.dtype.str, column.tobytes()]
    return [least, dtype, (column - least).astype(dtype).tobytes()]


def _numpy_value(dtype: str, shape: list[int], data: Any) -> Any:
    import numpy as np

    if isinstance(data, list):
        columns = [
            np.add(np.frombuffer(c, d), np.int64(least), dtype=np.int64) for least, d, c in data
        ]
        return (np.stack(columns, 1) if len(shape) > 1 else columns[0]).reshape(tuple(shape))
    values = np.frombuffer(data, dtype=np.dtype(dtype)).reshape(tuple(shape)).copy()
    return values if shape else values[()]


def _int_to_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, signed=True)


def _int_from_bytes(data: bytes) -> int:
    return int.from_bytes(data, signed=True)


def _fraction(parts: list[int]) -> fractions.Fraction:
    return fractions.Fraction(*parts)


def _timedelta(parts: list[int]) -> dt.timedelta:
    return dt.timedelta(*parts)


_NUMPY = 0
_WHOLE, _DISTANCES = "<i8", ("<u1", "<u2", "<u4")
_EXTENSIONS: dict[int, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    1: (tuple, list, tuple),
    2: (int, _int_to_bytes, _int_from_bytes),
    3: (frozenset, list, frozenset),
    4: (set, list, set),
    5: (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    6: (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    7: (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    8: (dt.timedelta, lambda t: [t.days, t.seconds, t.microseconds], _timedelta),
    9: (decimal.Decimal, str, decimal.Decimal),
    10: (uuid.UUID, str, uuid.UUID),
    12: (fractions.Fraction, lambda f: [f.numerator, f.denominator], _fraction),
    11: (complex, lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
}
_CODE_OF_TYPE = {kind: code for code, (kind, _, _) in _EXTENSIONS.items()}

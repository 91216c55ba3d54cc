"""Values as hashes that are the same in every process.

Values are hashed by what they are: numbers that compare equal (1, 1.0, True) are one value, whatever
their type, and so are all NaN.
"""

import datetime as dt
import hashlib
import uuid
from typing import Any


def fingerprint(value: Any) -> int:
    """Return 64 bits of the value's digest, signed."""
    return int.from_bytes(digest(value)[:8], signed=True)


def digest(value: Any) -> bytes:
    """Return 16 bytes that are equal just if the values are, short of a collision."""
    return hashlib.blake2b(canonical(value), digest_size=16).digest()


def canonical(value: Any) -> bytes:
    """Return bytes that are equal just if the values are."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if hasattr(value, "as_integer_ratio"):
        return b"n" + _number(value)
    if isinstance(value, tuple):
        parts = [canonical(part) for part in value]
        return b"t" + b"".join(len(part).to_bytes(8) + part for part in parts)
    if isinstance(value, dt.datetime):
        return b"d" + (value.astimezone(dt.UTC) if value.tzinfo else value).isoformat().encode()
    for tag, kind in ((b"D", dt.date), (b"P", dt.timedelta), (b"U", uuid.UUID)):
        if isinstance(value, kind):
            return tag + str(value).encode()
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return canonical(value.item())
    raise TypeError(
        f"a sketch cannot hash {value!r}: give text, bytes, a number, a date or a time, a UUID, or a "
        "tuple of these; convert other types first, for example with str"
    )


def _number(value: Any) -> bytes:
    try:
        numerator, denominator = value.as_integer_ratio()
    except ValueError:
        return b"nan"
    except OverflowError:
        return b"inf" if value > 0 else b"-inf"
    return b"%x/%x" % (numerator, denominator)

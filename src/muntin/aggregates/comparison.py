"""When two partials of the same rows count as the same.

Integers, text and tuples must agree exactly. Floats may differ in their last bits, because algorithms
associate differently. Approximate aggregates promise only that their results are near each other.
"""

import math
from numbers import Real
from typing import Any

from muntin.aggregates.aggregate import Aggregate, Partial


def same_partial(aggregate: Aggregate, a: Partial, b: Partial) -> bool:
    """Whether the two partials stand for the same rows."""
    if aggregate.approximate:
        return same_result(aggregate, aggregate.lower(a), aggregate.lower(b))
    return close(aggregate.to_plain(a), aggregate.to_plain(b))


def same_result(aggregate: Aggregate, a: Any, b: Any) -> bool:
    """Whether the two results stand for the same rows: by `agree`, if the aggregate has it.

    >>> from muntin import Collect
    >>> same_result(Collect(), [1, 2], [2, 1])
    False
    """
    if aggregate.agree is not None and a is not None and b is not None:
        return aggregate.agree(a, b)
    return close(a, b, tolerance=0.05 if aggregate.approximate else 1e-9)


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Compare plain data, floats within a relative tolerance and NaN equal to NaN.

    >>> close((1, 0.1 + 0.2), (1, 0.3)), close(1, 2), close(float("nan"), float("nan"))
    (True, False, True)
    """
    if a is b:
        return True
    if _is_float(a) or _is_float(b):
        return _close_numbers(a, b, tolerance)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[key], b[key], tolerance) for key in a)
    if hasattr(a, "tolist") and hasattr(b, "tolist"):  # NumPy's arrays and scalars
        return close(a.tolist(), b.tolist(), tolerance)
    return bool(a == b)


def _is_float(x: Any) -> bool:
    return isinstance(x, float) or (hasattr(x, "dtype") and x.dtype.kind == "f" and not x.shape)


def _close_numbers(a: Any, b: Any, tolerance: float) -> bool:
    if not all(isinstance(x, Real) or _is_float(x) for x in (a, b)):
        return False
    if a == b or (a != a and b != b):
        return True
    single = any(getattr(x, "itemsize", 8) < 8 for x in (a, b))
    tolerance = max(tolerance, 1e-4) if single else tolerance
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)

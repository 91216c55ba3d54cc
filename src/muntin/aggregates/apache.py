"""What all sketches of Apache DataSketches share: the import, merging, and written partials.

Its merge changes the sketch that it is called on and reading a quantile sorts inside, so that work is
done on copies and a partial never changes. Written sketches are sealed with a checksum, because
DataSketches may crash on bytes that were altered.
"""

from collections.abc import Callable
from typing import Any

from muntin.aggregates.encoding import SnapshotError, seal, unseal


def import_datasketches(asked_by: str) -> Any:
    """Return the package, or say what to install."""
    try:
        import datasketches
    except ImportError as error:
        raise ImportError(
            f"{asked_by} needs Apache DataSketches: pip install 'muntin[sketches]'"
        ) from error
    return datasketches


def merge_copies(a: Any, b: Any) -> Any:
    """Return the two sketches as one; None stands for a sketch of nothing."""
    if a is None or b is None:
        return b if a is None else a
    merged = a.__copy__()
    merged.merge(b)
    return merged


def united(make_union: Callable[[], Any], *options: Any) -> Callable[[Any, Any], Any]:
    """Return a combine that unites two sketches; None stands for a sketch of nothing."""

    def combine(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        union = make_union()
        union.update(a)
        union.update(b)
        return union.get_result(*options)

    return combine


def write_sketch(sketch: Any) -> bytes | None:
    """Return a sketch as sealed bytes."""
    return None if sketch is None else seal(sketch.serialize())


def sketch_reader(kind: Any, fits: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Return a function that reads what was sealed, if it is a sketch of a kind that fits."""

    def read(data: Any) -> Any:
        if data is None:
            return None
        try:
            sketch = kind.deserialize(unseal(data))
        except (ValueError, TypeError, IndexError, RuntimeError, MemoryError) as error:
            raise SnapshotError(f"these bytes are not a {kind.__name__}: {error}") from error
        if not fits(sketch):
            raise SnapshotError(f"the {kind.__name__} was made with other parameters")
        return sketch

    return read

"""Sketches of Apache DataSketches: answers about many values from partials of a fixed size."""

import math
from dataclasses import dataclass, field
from typing import Any

from muntin.aggregates.aggregate import Aggregate, built_in, named
from muntin.aggregates.apache import (
    import_datasketches,
    merge_copies,
    sketch_reader,
    united,
    write_sketch,
)
from muntin.aggregates.conditions import Where
from muntin.aggregates.encoding import SnapshotError, seal, unseal
from muntin.aggregates.hashing import canonical, fingerprint
from muntin.aggregates.moments import as_float
from muntin.aggregates.parameters import check_open, check_whole, exact_share

Quantiles = tuple[int, Any]


@dataclass(frozen=True, slots=True, eq=False)
class CountMinCounts:
    """How often each value occurred: never too few, and rarely more than error * total too many.

    Cost: O(hashes) per question.

    >>> count = CountMin()
    >>> counts = count.lower(count.combine(count.lift(7), count.lift(7.0)))
    >>> counts.get_estimate(7), counts.get_estimate(8), counts.total
    (2, 0, 2)
    """

    _sketch: Any = field(repr=False)

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self._sketch.total_weight)

    def get_estimate(self, value: Any) -> int:
        """Estimate how often the value occurred."""
        return int(self._sketch.get_estimate(fingerprint(value)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CountMinCounts):
            return NotImplemented
        return bool(self._sketch.serialize() == other._sketch.serialize())


def CountMin(
    column: str | None = None, *, error: float = 0.01, confidence: float = 0.99, where: Where = None
) -> Aggregate:
    """Count every value, at most error * total too many with the given confidence; null if empty.

    Ask the result with get_estimate(value). Cost: O(log(1 / (1 - confidence)) / error) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(CountMin())
    >>> window.bulk_insert(["a", "b", "a"])
    >>> window.query().get_estimate("a")
    2
    """
    datasketches = import_datasketches("CountMin")
    check_open("count_min", "error", error)
    check_open("count_min", "confidence", confidence)
    buckets = math.ceil(math.e / error)
    hashes = math.ceil(-math.log(1.0 - confidence))
    if buckets * hashes >= 2**30:
        raise ValueError(f"count_min: error {error!r} would take {buckets * hashes} counters")

    def lift(value: Any) -> Any:
        sketch = datasketches.count_min_sketch(hashes, buckets)
        sketch.update(fingerprint(value))
        return sketch

    return built_in(
        f"count_min(error={error}, confidence={confidence})",
        "object",
        parameters={"error": error, "confidence": confidence},
        identity=None,
        lift=lift,
        combine=merge_copies,
        lower=lambda sketch: None if sketch is None else CountMinCounts(sketch),
        commutative=True,
        columns=named(column),
        where=where,
        encode=write_sketch,
        decode=sketch_reader(
            datasketches.count_min_sketch,
            lambda sketch: (sketch.num_hashes, sketch.num_buckets) == (hashes, buckets),
        ),
    )


def ApproxDistinct(column: str | None = None, *, lg_k: int = 12, where: Where = None) -> Aggregate:
    """Estimate how many different values there are, with a CPC sketch of 2^lg_k bins.

    The relative error is 0.69 / sqrt(2^lg_k), 1.1 % by default; up to a few hundred values
    the count is nearly exact. The result does not depend on how the values were grouped.
    Cost: O(2^lg_k) per combine at most, less while there are few values.

    >>> from muntin import DabaLite
    >>> window = DabaLite(ApproxDistinct())
    >>> window.bulk_insert(["a", "b", "a"])
    >>> window.query()
    2
    """
    datasketches = import_datasketches("ApproxDistinct")
    check_whole("approx_distinct", "lg_k", lg_k, 4, 26)

    def lift(value: Any) -> Any:
        sketch = datasketches.cpc_sketch(lg_k)
        sketch.update(fingerprint(value))
        return sketch

    return built_in(
        f"approx_distinct(lg_k={lg_k})",
        "count",
        parameters={"lg_k": lg_k},
        identity=None,
        lift=lift,
        combine=united(lambda: datasketches.cpc_union(lg_k)),
        lower=lambda sketch: 0 if sketch is None else round(sketch.get_estimate()),
        commutative=True,
        approximate=True,
        columns=named(column),
        where=where,
        encode=write_sketch,
        decode=sketch_reader(datasketches.cpc_sketch, lambda sketch: sketch.lg_k == lg_k),
    )


def ApproxQuantile(
    column: str | None = None, q: float = 0.5, *, k: int = 200, where: Where = None
) -> Aggregate:
    """Estimate the value of rank q n with a KLL sketch; null if there are no values.

    The rank is off by at most 1.33 % with 99 % confidence for k = 200, and exact for up to k values.
    NaN ranks above every number. Cost: O(k) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(ApproxQuantile(q=0.9))
    >>> window.bulk_insert(range(1, 101))
    >>> window.query()
    90.0
    """
    datasketches = import_datasketches("ApproxQuantile")
    share = exact_share("approx_quantile", q)
    check_whole("approx_quantile", "k", k, 8, 65535)
    read = sketch_reader(datasketches.kll_doubles_sketch, lambda sketch: sketch.k == k)

    def lift(value: Any) -> Quantiles:
        number = as_float("approx_quantile", value)
        if number != number:
            return (1, None)
        sketch = datasketches.kll_doubles_sketch(k)
        sketch.update(number)
        return (0, sketch)

    def lower(partial: Quantiles) -> float | None:
        nans, sketch = partial
        numbers = 0 if sketch is None else sketch.n
        if not nans + numbers:
            return None
        rank = max(1, math.ceil(share * (nans + numbers)))
        if rank > numbers:
            return math.nan
        # Reading sorts inside, hence the copy; half a rank down so that rounding cannot reach the next.
        return float(sketch.__copy__().get_quantile((rank - 0.5) / numbers, True))

    def decode(data: Any) -> Quantiles:
        if not isinstance(data, tuple | list) or len(data) != 2 or not isinstance(data[0], int):
            raise SnapshotError(f"approx_quantile: a partial is a pair, got {data!r}")
        return (data[0], read(data[1]))

    return built_in(
        f"approx_quantile({q}, k={k})",
        "float",
        parameters={"q": q, "k": k},
        identity=(0, None),
        lift=lift,
        combine=lambda a, b: (a[0] + b[0], merge_copies(a[1], b[1])),
        lower=lower,
        commutative=True,
        approximate=True,
        columns=named(column),
        where=where,
        encode=lambda partial: (partial[0], write_sketch(partial[1])),
        decode=decode,
    )


def TopK(
    column: str | None = None, k: int = 10, *, lg_max: int = 10, where: Where = None
) -> Aggregate:
    """List the k most frequent values with estimated counts, the most frequent first.

    Counts are exact for up to 0.75 * 2^lg_max different values, else at most 3.5 / 2^lg_max of all
    rows too high; equal counts are ordered by repr. Values come back with their type, so 1 and 1.0
    are counted apart. Cost: O(2^lg_max) per combine.

    >>> from muntin import DabaLite
    >>> window = DabaLite(TopK(k=2))
    >>> window.bulk_insert(["a", "b", "a", "c", "b", "a"])
    >>> window.query()
    [('a', 3), ('b', 2)]
    """
    datasketches = import_datasketches("TopK")
    check_whole("top_k", "lg_max", lg_max, 3, 26)
    check_whole("top_k", "k", k, 1, 3 * 2**lg_max // 4)
    kind = datasketches.frequent_strings_sketch
    epsilon = kind.get_epsilon_for_lg_size(lg_max)
    read = sketch_reader(kind, lambda sketch: sketch.epsilon == epsilon)

    def lift(item: Any) -> Any:
        sketch = kind(lg_max)
        sketch.update(_item_to_text(item))
        return sketch

    def rows(sketch: Any) -> list[tuple[str, int]]:
        found = sketch.get_frequent_items(datasketches.NO_FALSE_NEGATIVES)
        return [(text, estimate) for text, estimate, _, _ in found]

    def lower(sketch: Any) -> list[tuple[Any, int]]:
        if sketch is None:
            return []
        found = [(_item_from_text(text), estimate) for text, estimate in rows(sketch)]
        return sorted(found, key=lambda row: (-row[1], repr(row[0])))[:k]

    def decode(data: Any) -> Any:
        sketch = read(data)
        if sketch is not None:
            for text, _ in rows(sketch):
                _item_from_text(text)
        return sketch

    return built_in(
        f"top_k({k}, lg_max={lg_max})",
        parameters={"k": k, "lg_max": lg_max},
        results=("value", "count"),
        gives_rows=True,
        identity=None,
        lift=lift,
        combine=merge_copies,
        lower=lower,
        commutative=True,
        approximate=True,
        columns=named(column),
        where=where,
        encode=write_sketch,
        decode=decode,
    )


def _item_to_text(item: Any) -> str:
    """Return a text from which _item_from_text makes the same value of the same type."""
    if isinstance(item, str):
        item.encode()  # DataSketches takes what UTF-8 can hold
        return "s" + item
    if isinstance(item, int) and not isinstance(item, bool):
        return f"i{item:x}"
    if isinstance(item, float):
        return "f" + (float(item) + 0.0).hex()  # -0.0 becomes 0.0
    if type(item).__module__ == "numpy" and hasattr(item, "item") and item.dtype.kind not in "mM":
        return _item_to_text(item.item())
    canonical(item)  # refuses what has no order of its own, such as sets
    return "p" + seal(item).decode("latin-1")


def _item_from_text(text: str) -> Any:
    tag, content = text[:1], text[1:]
    if tag == "s":
        return content
    if tag == "i":
        return int(content, 16)
    if tag == "f":
        return float.fromhex(content)
    return unseal(content.encode("latin-1"))

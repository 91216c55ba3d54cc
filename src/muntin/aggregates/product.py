"""Several aggregates over one window: their product is an aggregate again.

The window's structure, its evictions and its slide policy are shared by all parts (TPDS 2019,
experiment 5); each combine combines every part.
"""

from collections.abc import Callable
from typing import Any

from muntin.aggregates.aggregate import Aggregate, built_in
from muntin.aggregates.comparison import same_result
from muntin.aggregates.conditions import Where

Partials = tuple[Any, ...]


def Product(*parts: Aggregate, where: Where = None, **named_parts: Aggregate) -> Aggregate:
    """Compute several aggregates at once: a tuple of results, or a dict if the parts are named.

    Cost: one combine of every part per combine.

    >>> from muntin import DabaLite, Max, Mean
    >>> window = DabaLite(Product(top=Max("watts"), usual=Mean("watts")))
    >>> window.bulk_insert([{"watts": 3}, {"watts": 8}, {"watts": 4}])
    >>> window.query()
    {'top': 8, 'usual': 5.0}
    """
    if parts and named_parts:
        raise TypeError("product: give all parts by position or all by name")
    members = parts or tuple(named_parts.values())
    if not members:
        raise TypeError("product: give at least one aggregate")
    for member in members:
        if not isinstance(member, Aggregate):
            raise TypeError(f"product: every part is an aggregate such as Max(), got {member!r}")

    lifts = [member.input_lift() for member in members]
    combines = [member.combine for member in members]
    lowers = [member.lower for member in members]

    def lift(value: Any) -> Partials:
        return tuple([part_lift(value) for part_lift in lifts])

    def combine(a: Partials, b: Partials) -> Partials:
        return tuple(
            [part_combine(x, y) for part_combine, x, y in zip(combines, a, b, strict=True)]
        )

    def lower(partials: Partials) -> Any:
        results = [part_lower(x) for part_lower, x in zip(lowers, partials, strict=True)]
        return dict(zip(named_parts, results, strict=True)) if named_parts else tuple(results)

    def to_plain(partials: Partials) -> Any:
        return [member.to_plain(x) for member, x in zip(members, partials, strict=True)]

    def from_plain(plain: Any) -> Partials:
        return tuple([member.from_plain(x) for member, x in zip(members, plain, strict=True)])

    coded = any(member.encode for member in members)
    return built_in(
        f"product({', '.join(member.name for member in members)})",
        identity=tuple(member.identity for member in members),
        lift=lift,
        combine=combine,
        lower=lower,
        inverse=_inverse(members) if all(member.invertible for member in members) else None,
        commutative=all(member.commutative for member in members),
        holistic=any(member.holistic for member in members),
        approximate=any(member.approximate for member in members),
        agree=_agree(members) if any(member.agree for member in members) else None,
        nulls=True,
        encode=to_plain if coded else None,
        decode=from_plain if coded else None,
        parts=members,
        parameters={"names": tuple(named_parts)},
        where=where,
    )


def _agree(members: tuple[Aggregate, ...]) -> Callable[[Any, Any], bool]:
    def agree(a: Any, b: Any) -> bool:
        results = [x.values() if isinstance(x, dict) else x for x in (a, b)]
        return all(same_result(m, x, y) for m, x, y in zip(members, *results, strict=True))

    return agree


def _inverse(members: tuple[Aggregate, ...]) -> Any:
    def inverse(total: Partials, oldest: Partials) -> Partials:
        rest = tuple(
            [
                member.inverse(x, y)  # type: ignore[misc]
                for member, x, y in zip(members, total, oldest, strict=True)
            ]
        )
        return NotImplemented if any(x is NotImplemented for x in rest) else rest

    return inverse

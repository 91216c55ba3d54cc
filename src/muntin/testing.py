"""Test your own aggregates and policies: the laws that an algorithm relies on, as functions."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import accumulate, pairwise, product
from typing import Any

from muntin.aggregates import Aggregate, SnapshotError, close, same_partial, seal, unseal
from muntin.policies import SlidePolicy


class LawError(AssertionError):
    """An aggregate or a policy is not what it must be; the message names the law and what breaks it."""


def check_laws(aggregate: Aggregate, samples: Iterable[Any]) -> None:
    """Raise LawError unless the aggregate keeps the laws it declares, on the given inputs.

    Associativity and identity always; inverse, commutative and selective where declared; that combine
    leaves its arguments alone, and that partials survive being written and read. A few inputs are
    enough: every triple of their partials is tried. Take some that are equal, and some that order.

    >>> from muntin import Max, Sum, Aggregate
    >>> check_laws(Sum(), [3, -1, 4, 4])
    >>> mean = Aggregate("mean", 0, lift=float, combine=lambda a, b: (a + b) / 2)
    >>> check_laws(mean, [1, 2, 3])
    Traceback (most recent call last):
    ...
    muntin.testing.LawError: mean: not associative: combine(combine(1.0, 1.0), 2.0) is 1.5 but ...
    """
    lift = aggregate.input_lift()
    lifted = [lift(sample) for sample in samples]
    if not lifted:
        raise ValueError("check_laws needs at least one sample")
    for a in lifted:
        _check_encoding(aggregate, a)
    _check_arguments_kept(aggregate, lifted)
    joined = [aggregate.combine(a, b) for a, b in pairwise(lifted)]
    partials = [*lifted, *joined[:3]]
    for a, b, c in product(partials, repeat=3):
        _check_associative(aggregate, a, b, c)
    for a in partials:
        _check_identity(aggregate, a)
    for a, b in product(partials, repeat=2):
        _check_declared(aggregate, a, b)


def check_policy(
    policy: SlidePolicy | Callable[[Any, Any], Any],
    samples: Iterable[Any],
    aggregate: Aggregate | None = None,
) -> None:
    """Raise LawError unless the policy is monotone in every window of the given inputs, in their order.

    If it holds for a run of a window's oldest values, it must hold for all shorter runs. A policy that
    is a plain function needs the aggregate whose results it sees. A few dozen inputs are enough: every
    stretch of them is a window, and every run of it is tried.

    >>> from muntin.policies import sum_at_most
    >>> check_policy(sum_at_most(3), [2, 0, 1, 4, 1])
    >>> check_policy(sum_at_most(3), [2, -4, 5])
    Traceback (most recent call last):
    ...
    muntin.testing.LawError: sum_at_most(3): not monotone: in the window [2, -4, 5] it holds for the
    oldest 3 but not for the oldest 1
    """
    if not isinstance(policy, SlidePolicy):
        if aggregate is None:
            raise TypeError("check_policy needs aggregate=, whose results the function sees")
        policy = SlidePolicy(getattr(policy, "__name__", repr(policy)), aggregate, policy)
    inputs = list(samples)
    if not inputs:
        raise ValueError("check_policy needs at least one sample")
    lifted = [*map(policy.aggregate.input_lift(), inputs)]
    for start in range(len(inputs)):
        runs = [*accumulate(lifted[start:], policy.aggregate.combine)]
        for n in range(1, len(runs) + 1):
            _check_monotone(policy, runs[:n], inputs[start : start + n])


def _check_monotone(policy: SlidePolicy, runs: list[Any], window: list[Any]) -> None:
    holds = policy.on_partials()
    answers = [bool(holds(runs[-1], run)) for run in runs]
    longest = max((n for n, held in enumerate(answers, 1) if held), default=0)
    if not all(answers[:longest]):
        shorter = answers.index(False) + 1
        raise LawError(
            f"{policy.name}: not monotone: in the window {window!r} it holds for the oldest {longest} "
            f"but not for the oldest {shorter}"
        )


def _fail(aggregate: Aggregate, law: str, left: str, x: Any, y: Any) -> None:
    if not same_partial(aggregate, x, y):
        raise LawError(f"{aggregate.name}: {law}: {left} is {x!r} but should be {y!r}")


def _check_associative(aggregate: Aggregate, a: Any, b: Any, c: Any) -> None:
    combine = aggregate.combine
    left = f"combine(combine({a!r}, {b!r}), {c!r})"
    _fail(aggregate, "not associative", left, combine(combine(a, b), c), combine(a, combine(b, c)))


def _check_identity(aggregate: Aggregate, a: Any) -> None:
    identity, combine = aggregate.identity, aggregate.combine
    _fail(
        aggregate, "identity is not neutral", f"combine(identity, {a!r})", combine(identity, a), a
    )
    _fail(
        aggregate, "identity is not neutral", f"combine({a!r}, identity)", combine(a, identity), a
    )


def _check_declared(aggregate: Aggregate, a: Any, b: Any) -> None:
    total = aggregate.combine(a, b)
    call = f"combine({a!r}, {b!r})"
    if aggregate.commutative:
        _fail(aggregate, "not commutative", call, total, aggregate.combine(b, a))
    if aggregate.selective and not any(same_partial(aggregate, total, x) for x in (a, b)):
        raise LawError(f"{aggregate.name}: not selective: {call} is {total!r}, neither argument")
    if aggregate.inverse is not None:
        rest = aggregate.inverse(total, a)
        if rest is not NotImplemented:
            _fail(aggregate, "inverse is wrong", f"inverse({call}, {a!r})", rest, b)


def _check_arguments_kept(aggregate: Aggregate, lifted: list[Any]) -> None:
    record = aggregate.to_plain if aggregate.encode else deepcopy
    for a, b in pairwise([*lifted, lifted[0]]):
        before = (record(a), record(b))
        aggregate.combine(a, b)
        if not close((record(a), record(b)), before):
            raise LawError(f"{aggregate.name}: combine changes its arguments {a!r} and {b!r}")


def _check_encoding(aggregate: Aggregate, a: Any) -> None:
    if aggregate.encode is None:
        return
    try:
        restored = aggregate.from_plain(unseal(seal(aggregate.to_plain(a))))
    except (TypeError, SnapshotError) as error:
        raise LawError(f"{aggregate.name}: encode does not give plain data: {error}") from error
    _fail(aggregate, "decode does not undo encode", f"decode(encode({a!r}))", restored, a)

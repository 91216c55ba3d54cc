"""One call at a time, and a call that fails is undone.

Whoever changes a state first notes in the journal what it overwrites. Undone last to first, the state is
as it was before the call, wherever the call stopped: at an error of a user's function, at an interrupt,
when memory ended. An object whose journal could not be undone to its end refuses every further call.
"""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

IN_USE = (
    "{0} belongs to one thread at a time, and another call of it has not returned: take one per thread, "
    "or a lock; a query's functions cannot call it. If no call is under way, one was interrupted: "
    "restore a snapshot"
)
STOPPED = "a call of {0} was interrupted in the middle of a change ({1}): restore a snapshot"


class TornError(RuntimeError):
    """A change that cannot be undone, because it stopped while items were moved."""


class Journal:
    """What a call has overwritten so far, and how to put it back."""

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., None], Any]] = []

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Note a function that undoes what follows."""
        self._steps.append((function, arguments))

    def fields(self, *things: Any) -> None:
        """Note what all attributes of objects refer to, but not what is in it."""
        for thing in things:
            self._steps.append((_put_fields, (thing, thing.__dict__.copy())))

    def whole(self, *things: Any) -> None:
        """Note all attributes of objects, with copies of arrays and containers. Cost: O(their size)."""
        for thing in things:
            held = {name: _copied(value) for name, value in vars(thing).items()}
            self._steps.append((_put_fields, (thing, held)))

    def items(self, places: Any, *arrays: "np.ndarray[Any, Any]") -> None:
        """Note what is at some places of arrays."""
        for array in arrays:
            held = array[places]
            self._steps.append(
                (array.__setitem__, (places, held if held.base is None else held.copy()))
            )

    def entries(
        self, held: dict[Any, Any], keys: list[Any], copied: Callable[[Any], Any] | None = None
    ) -> None:
        """Note what a dict has for some keys: copies, if values are changed where they are."""
        known = {key: held[key] for key in keys if key in held}
        if copied is not None:
            known = {key: copied(value) for key, value in known.items()}
        self._steps.append((_put_entries, (held, keys, known)))

    def length(self, *lists: list[Any]) -> None:
        """Note how long lists are, to which something is appended."""
        for items in lists:
            self._steps.append((_shorten, (items, len(items))))

    def no_return(self) -> None:
        """Note that what follows cannot be undone."""
        self._steps.append((_refuse, ()))

    def undo(self) -> None:
        """Undo all that was noted, last to first."""
        while self._steps:
            function, arguments = self._steps[-1]
            function(*arguments)
            self._steps.pop()

    def forget(self) -> None:
        """Begin again with nothing noted."""
        self._steps = []


class Calls:
    """The calls of one object, of which there is one at a time.

    `with calls as journal:` undoes what was noted in the journal if the block raises anything. The last
    step of a call is to give the journal back: whoever is stopped before that, and could not undo,
    leaves an object that refuses every further call.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._journal = Journal()
        self._free = [self._journal]  # list.pop is atomic: a lock that is copied and pickled
        self._stopped = ""

    def __enter__(self) -> Journal:
        try:
            return self._free.pop()
        except IndexError:
            raise self._refusal() from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, trace
        if error is not None and not self._undone(error):
            return
        self._journal.forget()
        self._free = [self._journal]  # nothing may follow: the call is done with this line

    def _undone(self, error: BaseException) -> bool:
        self._stopped = type(error).__name__
        try:
            self._journal.undo()
        except TornError:
            return False
        self._stopped = ""
        return True

    def _refusal(self) -> RuntimeError:
        if not self._stopped:
            return RuntimeError(IN_USE.format(self._what))
        return RuntimeError(STOPPED.format(self._what, self._stopped))


def _put_fields(thing: Any, held: dict[str, Any]) -> None:
    fields = vars(thing)
    fields.clear()
    fields.update(held)


def _put_entries(held: dict[Any, Any], keys: list[Any], known: dict[Any, Any]) -> None:
    for key in keys:
        if key in known:
            held[key] = known[key]
        else:
            held.pop(key, None)


def _shorten(items: list[Any], length: int) -> None:
    del items[length:]


def _refuse() -> None:
    raise TornError


def _copied(value: Any) -> Any:
    """Return arrays and containers as copies, and what else is in them as it is."""
    if hasattr(value, "__array__"):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(item) for item in value)
    return value

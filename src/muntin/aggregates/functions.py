"""Digests of users' functions: equal in every process for the same function, another one if it changed.

A digest covers what a function computes with: bytecode, constants, nested functions, defaults, closures
and the user's own globals that it refers to. It does not cover file names, line numbers, docstrings and
annotations. Modules are known by name, and of a user's own module also what the function takes from it.
What belongs to muntin, to Python or to an installed library is known by its qualified name. Bytecode
differs between Python's minor versions, so a digest holds for one of them.
"""

import copyreg
import datetime as dt
import decimal
import dis
import enum
import fractions
import functools
import hashlib
import importlib.util
import pickle
import re
import struct
import sys
import sysconfig
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
OURS = __name__.partition(".")[0]
GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
TEXTS = (decimal.Decimal, fractions.Fraction, uuid.UUID, range, complex, dt.timezone, PurePath)
"""Types whose values differ if their texts do."""
CODES = 1 << 10
"""What this many pieces of code refer to is remembered."""
MUTABLE = (list, dict, set, bytearray)
MOMENTS = (dt.datetime, dt.date, dt.time, dt.timedelta)
NOT_BEHAVIOUR = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__",
    "__firstlineno__", "__module__", "__orig_bases__", "__parameters__", "__qualname__",
    "__slotnames__", "__static_attributes__", "__type_params__", "__weakref__", "_abc_impl",
}  # fmt: skip
"""What a class has besides that which it does."""

KNOWN: dict[type, Callable[[Any], Any]] = {}
"""Types of ours that are known by plain data instead of their functions."""


def digest(thing: Any, what: str = "the function") -> str:
    """Return the digest of a function, or of an object that works like one.

    TypeError if it refers to something that has no digest, such as a lock; `what` names it then.

    >>> from functools import partial
    >>> digest(partial(pow, 2)) == digest(partial(pow, 2))
    True
    >>> digest(partial(pow, 2)) == digest(partial(pow, 3))
    False
    """
    fixed = _read(thing, what, states=False)
    try:
        known = _digests.get(thing)
    except TypeError:  # it cannot be hashed
        return _read(thing, what, states=True)
    if known is None or known[0] != fixed:
        known = fixed, _read(thing, what, states=True)
        with suppress(TypeError):
            _digests[thing] = known
    return known[1]


_digests: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
"""Of each function its digests without and with the states of objects that it refers to.

What changes in an object while a function is used, such as a counter or a cache, counts as it was at
first; another object in its place counts.
"""


def _read(thing: Any, what: str, *, states: bool) -> str:
    reader = _Reader(what, str(getattr(thing, "__module__", None)).partition(".")[0], states)
    try:
        reader.read(thing)
    except RecursionError as error:
        raise TypeError(
            f"{what} refers to so much that it has no digest: give version=, and change it whenever the "
            "function changes"
        ) from error
    return reader.hashed.hexdigest()


def is_ours(function: Any) -> bool:
    """Whether a function is muntin's own, or one that Python itself has in C."""
    if isinstance(function, types.BuiltinFunctionType | type) and _is_builtin(function):
        return True
    return _package(function) == OURS


def _package(thing: Any) -> str:
    return _module(thing).partition(".")[0]


def _module(thing: Any) -> str:
    """Return where a thing is from; what a function says of itself may be that of one it wraps."""
    said = getattr(thing, "__module__", None)
    if isinstance(thing, types.FunctionType):
        said = thing.__globals__.get("__name__", said)
    return str(said or "")


def _is_builtin(thing: Any) -> bool:
    return _package(thing) in sys.builtin_module_names


@functools.cache
def _is_library(module: str) -> bool:
    """Whether a module belongs to Python or to an installed library, and not to the user."""
    package = module.partition(".")[0]
    if package == "__main__":
        return False
    if package in (OURS, *sys.builtin_module_names) or package in sys.stdlib_module_names:
        return True
    found = sys.modules.get(module) or sys.modules.get(package)
    file = getattr(found, "__file__", None) if found else _origin(package)
    paths = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return file is not None and any(path and PurePath(file).is_relative_to(path) for path in paths)


def _origin(package: str) -> str | None:
    """Return the file of a package that was not imported yet."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec else None


class _Reader:
    """Reads a thing and all it refers to into one hash.

    Functions, classes and containers are numbered as they are met, so that one that is met again is
    read once: a function may refer to itself.
    """

    def __init__(self, what: str, package: str, states: bool) -> None:
        self._states = states  # whether what objects hold is read, or which objects they are
        self.hashed = hashlib.blake2b(digest_size=16)
        self._what = what
        self._own = package  # the package of the function itself counts as the user's
        self._met: dict[int, int] = {}
        self._held: list[Any] = []  # what was met stays alive, so that its id is its own

    def read(self, thing: Any) -> None:
        """Read anything that a function may refer to."""
        kind = type(thing)
        if thing is None or thing is Ellipsis or thing is NotImplemented or kind in (bool, int):
            self._write("plain", kind.__name__, repr(thing))
        elif kind is float:
            self._write("float", struct.pack("<d", thing))
        elif kind in (str, bytes, bytearray):
            self._write(
                kind.__name__, thing if kind is not str else thing.encode(errors="surrogatepass")
            )
        elif isinstance(thing, enum.Enum):
            self._write("member", thing.name)
            self.read(kind)
        elif kind in MOMENTS or kind in TEXTS or isinstance(thing, PurePath):
            self._write(kind.__name__, repr(thing))
        elif kind is tuple:
            self._read_all("tuple", thing)
        elif kind in (set, frozenset):
            self._read_set(kind.__name__, thing)
        elif isinstance(thing, re.Pattern):
            self._write("pattern", str(thing.flags))
            self.read(thing.pattern)
        elif isinstance(thing, types.CodeType):
            self._read_code(thing, {})
        elif isinstance(thing, types.ModuleType):
            self._write("module", thing.__name__)
        elif not self._is_met(thing):
            self._read_object(thing)

    def _write(self, *parts: str | bytes | bytearray) -> None:
        for part in parts:
            content = part.encode() if isinstance(part, str) else part
            self.hashed.update(len(content).to_bytes(8, "little"))
            self.hashed.update(content)

    def _read_all(self, tag: str, things: Iterable[Any]) -> None:
        things = list(things)
        self._write(tag, str(len(things)))
        for thing in things:
            self.read(thing)

    def _read_set(self, tag: str, things: Iterable[Any]) -> None:
        """Read a set in an order that does not depend on hashes."""
        digests = []
        for thing in things:
            reader = _Reader(self._what, self._own, self._states)
            reader._met = dict(self._met)
            reader.read(thing)
            digests.append(reader.hashed.digest())
        self._write(tag, *sorted(digests))

    def _is_met(self, thing: Any) -> bool:
        number = self._met.get(id(thing))
        if number is not None:
            self._write("met", str(number))
            return True
        self._met[id(thing)] = len(self._met)
        self._held.append(thing)
        return False

    def _read_object(self, thing: Any) -> None:
        if type(thing) in KNOWN:
            self.read(KNOWN[type(thing)](thing))
        elif not self._states and type(thing) in MUTABLE:
            self._write("state", type(thing).__name__, str(id(thing)))
        elif type(thing) is list:
            self._read_all("list", thing)
        elif type(thing) in (dict, types.MappingProxyType):
            self._read_all("dict", [part for item in thing.items() for part in item])
        elif isinstance(thing, types.FunctionType):
            self._read_function(thing)
        elif isinstance(thing, types.MethodType):
            self._read_method(thing)
        elif isinstance(thing, types.BuiltinFunctionType | types.MethodWrapperType):
            self._read_builtin(thing)
        elif isinstance(thing, type):
            self._read_class(thing)
        elif isinstance(thing, functools.partial):
            self._read_all("partial", (thing.func, thing.args, thing.keywords))
        elif isinstance(thing, staticmethod | classmethod):
            self._read_all(type(thing).__name__, (thing.__func__,))
        elif isinstance(thing, property):
            self._read_all("property", (thing.fget, thing.fset, thing.fdel))
        elif isinstance(thing, functools.cached_property):
            self._read_all("cached_property", (thing.func,))
        elif isinstance(thing, types.MethodDescriptorType | types.WrapperDescriptorType):
            self._write("descriptor", thing.__objclass__.__qualname__, thing.__name__)
        elif isinstance(thing, types.MemberDescriptorType | types.GetSetDescriptorType):
            self._write("slot", thing.__name__)
        elif isinstance(thing, types.CellType):
            self._read_cell(thing)
        elif type(thing).__name__ == "_lru_cache_wrapper":
            self._read_all("cache", (thing.__wrapped__,))
        elif hasattr(thing, "py_func"):  # which Numba compiles
            self._read_all("compiled", (thing.py_func, thing.targetoptions))
        else:
            self._read_instance(thing)

    def _is_foreign(self, thing: Any) -> bool:
        """Whether a function or class is known by its name: muntin's, Python's or a library's."""
        module = _module(thing)
        package = module.partition(".")[0]
        if package == self._own and package != OURS and isinstance(thing, types.FunctionType):
            return package in sys.stdlib_module_names
        return _is_library(module)

    def _read_function(self, function: types.FunctionType) -> None:
        if self._is_foreign(function):
            name = function.__code__.co_qualname
            self._write("named", _module(function), name)
            if "<locals>" in name:  # it is known by what it was made with, too
                self._read_all("made with", (function.__defaults__, function.__kwdefaults__))
                self._read_all("closure", function.__closure__ or ())
            return
        self._read_all("function", (function.__defaults__, function.__kwdefaults__))
        self._read_all("closure", function.__closure__ or ())
        self._read_code(function.__code__, function.__globals__)
        own = {n: v for n, v in vars(function).items() if n != "__wrapped__"}
        self._read_sorted("attributes", own)

    def _read_method(self, method: types.MethodType) -> None:
        """Read a method by its name and object, if the object's class has it."""
        function: Any = method.__func__
        held = getattr(getattr(method.__self__, function.__name__, None), "__func__", None)
        if getattr(held, "__code__", None) == getattr(function, "__code__", self):
            self._read_all("method", (function.__name__, method.__self__))
        else:
            self._read_all("bound", (function, method.__self__))

    def _read_code(self, code: types.CodeType, names: dict[str, Any]) -> None:
        arguments = code.co_argcount + code.co_kwonlyargcount
        self._write("code", code.co_code, code.co_exceptiontable)
        self._write(str(code.co_argcount), str(code.co_posonlyargcount), str(code.co_flags))
        self._read_all("arguments", code.co_varnames[:arguments])
        self._read_all("names", code.co_names)
        constants = _constants(code)
        self._write("constants", str(len(constants)))
        for constant in constants:
            if isinstance(constant, types.CodeType):
                self._read_code(constant, names)
            else:
                self.read(constant)
        for name in _globals_of(code):
            self._read_global(name, names, code.co_names)
        for name in _imports_of(code, str(names.get("__package__") or "")):
            self._read_import(name, code.co_names)

    def _read_global(self, name: str, names: dict[str, Any], taken: tuple[str, ...]) -> None:
        self._write("global", name)
        if name not in names:
            self._write("a name of Python's own, or undefined")
            return
        value = names[name]
        self.read(value)
        if isinstance(value, types.ModuleType):
            self._read_module(value, taken)

    def _read_module(self, module: types.ModuleType, taken: tuple[str, ...]) -> None:
        """Read what a function may take from a module of the user's own."""
        if _is_library(module.__name__) or self._is_met(module):
            return
        for name in taken:
            value = vars(module).get(name)
            if isinstance(value, types.ModuleType):
                self._read_module(value, taken)
            elif name in vars(module):
                self._write(name)
                self.read(value)

    def _read_import(self, name: str, taken: tuple[str, ...]) -> None:
        """Read what a function imports itself from a module of the user's own."""
        self._write("import", name)
        if not _is_library(name):
            with suppress(ImportError):  # it may be there where the function runs
                self._read_module(import_module(name), taken)

    def _read_cell(self, cell: types.CellType) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            self._write("empty cell")
            return
        self._write("cell")
        self.read(content)

    def _read_builtin(self, function: Any) -> None:
        self._write("builtin", _module(function), function.__qualname__)
        if not isinstance(function.__self__, types.ModuleType | None):
            self.read(function.__self__)

    def _read_class(self, kind: type) -> None:
        if self._is_foreign(kind) or _is_builtin(kind):
            self._write("class", kind.__module__, kind.__qualname__)
            return
        self._read_all("own class", (kind.__name__, kind.__bases__, type(kind)))
        if issubclass(kind, enum.Enum):
            self._read_all("members", [(m.name, m.value) for m in kind.__members__.values()])
        parts = {n: v for n, v in vars(kind).items() if n not in NOT_BEHAVIOUR}
        if issubclass(kind, enum.Enum):
            parts = {n: v for n, v in parts.items() if isinstance(v, types.FunctionType)}
        self._read_sorted("parts", parts)

    def _read_sorted(self, tag: str, named: dict[str, Any]) -> None:
        self._write(tag, str(len(named)))
        for name in sorted(named):
            self._write(name)
            self.read(named[name])

    def _read_instance(self, thing: Any) -> None:
        """Read an object by what pickle would keep of it."""
        if not self._states:
            self._write(str(id(thing)))
            self.read(type(thing))
            return
        if type(thing).__module__ == "numpy" and hasattr(thing, "dtype"):
            self._read_numpy(thing)
            return
        try:
            reduce = copyreg.dispatch_table.get(type(thing))
            reduced = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
            if isinstance(reduced, str):
                pickle.dumps(thing)  # which fails if the name is not that of this object
        except Exception as error:  # whatever a class makes of being pickled
            raise TypeError(
                f"{self._what} refers to {thing!r} of type {type(thing).__qualname__}, of which no "
                "digest can be made: give version= (and change it when what is computed changes)"
            ) from error
        if isinstance(reduced, str):
            self._write("named", type(thing).__qualname__, reduced)
            return
        make, arguments, *state = reduced
        self._read_all("object", (make, arguments))
        for part in state:
            is_plain = part is None or isinstance(part, dict | tuple)
            self.read(part if is_plain or not isinstance(part, Iterator) else list(part))

    def _read_numpy(self, value: Any) -> None:
        self._write("numpy", value.dtype.str, str(value.shape))
        if value.dtype.hasobject:
            self._read_all("objects", value.ravel().tolist())
        else:
            self._write(value.tobytes())


@functools.lru_cache(CODES)
def _constants(code: types.CodeType) -> tuple[Any, ...]:
    """Return the constants without the docstring, which is the first if nothing loads it."""
    first, *rest = code.co_consts or (None,)
    if code.co_name.startswith("<") or not isinstance(first, str):
        return code.co_consts
    used = any(i.arg == 0 and i.opname == "LOAD_CONST" for i in dis.get_instructions(code))
    return code.co_consts if used else (None, *rest)


@functools.lru_cache(CODES)
def _globals_of(code: types.CodeType) -> list[str]:
    """Return the global names that a piece of code refers to, each once."""
    found = (i.argval for i in dis.get_instructions(code) if i.opname in GLOBALS)
    return list(dict.fromkeys(found))


@functools.lru_cache(CODES)
def _imports_of(code: types.CodeType, package: str) -> list[str]:
    """Return the modules that a piece of code imports, by their full names."""
    steps = list(dis.get_instructions(code))
    found = []
    for i, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":  # behind how many dots it has, and the names it takes
            name = "." * steps[i - 2].argval + step.argval
            with suppress(ImportError):
                found.append(importlib.util.resolve_name(name, package))
    return found

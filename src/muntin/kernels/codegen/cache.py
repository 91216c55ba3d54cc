"""The folder of generated modules and their machine code.

It follows the platform's convention, or MUNTIN_CACHE_DIR. A module is written under another name and
renamed, so that no process ever reads half of it. If the folder cannot be written, modules are in memory
only, and each process compiles them again.

A file in the folder is not trusted: the process runs the text that it generated, and the file must be
equal. Numba loads machine code by unpickling it, so the folder and its files must belong to this user or
to root, and nobody else may write to them. A folder that others may write to is used only with the
sticky bit, which keeps them from changing files of this user. Files that are broken, or whose machine
code is for other types than the index says, are made again.
"""

import hashlib
import importlib.util
import os
import pickle
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import platformdirs

from muntin._version import __version__

_LOADED: dict[str, ModuleType] = {}
_LOADING = threading.RLock()
MACHINE_CODE = "__pycache__"
"""The folder beside a module in which Numba keeps its files."""
SUM = hashlib.sha256().digest_size
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def folder() -> Path:
    """Return the folder for generated modules and their machine code."""
    chosen = os.environ.get("MUNTIN_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("muntin")) / __version__


def load_module(text: str) -> ModuleType:
    """Return the module with this text, which Numba caches if the folder can be written."""
    import numba

    key = f"{text}\n{numba.__version__}\n{sys.version_info[:2]}"
    key += "\nbounds are checked" if getattr(numba.config, "BOUNDSCHECK", None) else ""
    name = f"muntin_kernel_{hashlib.sha256(key.encode()).hexdigest()[:20]}"
    if name not in _LOADED:
        with _LOADING:
            if name not in _LOADED:
                _LOADED[name] = _run(name, text)  # other threads see a complete module
    return _LOADED[name]


def _run(name: str, text: str) -> ModuleType:
    path = _written(name, text)
    if path is None:
        return memory_module(name, text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["CACHED"] = True
    sys.modules[name] = module
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)  # never the text of the file
    except BaseException:
        del sys.modules[name]
        raise
    _guard(module)
    return module


def memory_module(name: str, text: str, **names: object) -> ModuleType:
    """Return a module that is in memory only, with the given names defined in it."""
    module = ModuleType(name)
    module.__dict__.update(CACHED=False, **names)
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


def _written(name: str, text: str) -> Path | None:
    """Return a file with this text in a folder that only this user can change; None if it fails."""
    place = folder()
    try:
        _make(place)
        if not _is_safe(place):
            return None
        if place.stat().st_mode & OTHERS_WRITE:
            place = place / str(os.getuid())  # in a folder for all, each user has one
            _make(place)
        _make(place / MACHINE_CODE)
        if not (_is_safe(place) and _is_safe(place / MACHINE_CODE)):
            return None
        path = place / f"{name}.py"
        _discard_foreign(place / MACHINE_CODE, name)
        if not _is_ours(path) or path.read_bytes() != text.encode():
            _write(path, text)
    except OSError:
        return None
    return path


def _make(place: Path) -> None:
    """Make a folder that only its owner can write; remove the rights of others from an existing one."""
    place.mkdir(mode=0o755 if _is_shared() else 0o700, parents=True, exist_ok=True)
    status = place.stat()
    if not _is_shared() and _belongs(status) and status.st_mode & OTHERS_WRITE:
        place.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS_WRITE)


def _is_shared() -> bool:
    return "MUNTIN_CACHE_DIR" in os.environ


def _is_safe(place: Path) -> bool:
    """Whether only this user and root can change a folder; if not, warn why it is not used."""
    status = place.stat()
    if not _belongs(status):
        _warn(f"{place} belongs to another user")
    elif status.st_mode & OTHERS_WRITE and not status.st_mode & stat.S_ISVTX:
        _warn(f"others may write to {place}: chmod go-w, or set its sticky bit (chmod +t)")
    else:
        return True
    return False


def _belongs(status: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or status.st_uid in (os.getuid(), 0)


def _is_ours(path: Path) -> bool:
    """Whether a file is this user's or root's, and nobody else can write to it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    writable = hasattr(os, "getuid") and status.st_mode & OTHERS_WRITE
    return stat.S_ISREG(status.st_mode) and _belongs(status) and not writable


def _discard_foreign(place: Path, name: str) -> None:
    """Delete machine code of a module that others could have written: Numba would run it."""
    for path in place.glob(f"{name}.*"):
        if not _is_ours(path):
            path.unlink(missing_ok=True)  # if that is not allowed, the module is in memory only


def _write(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(temporary, _file_mode())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _file_mode() -> int:
    """Return the mode of files: others may read them if MUNTIN_CACHE_DIR chose the folder."""
    return 0o644 if _is_shared() else 0o600


@cache
def _warn(why: str) -> None:
    """Warn once that compiled code is not kept."""
    warnings.warn(
        f"compiled code is not kept between processes, because {why} (the folder is "
        "MUNTIN_CACHE_DIR, or the user's cache)",
        RuntimeWarning,
        stacklevel=2,
    )


def _guard(module: ModuleType) -> None:
    """Make Numba compile again if its files are broken, and continue if it cannot write them."""
    for dispatcher in vars(module).values():
        held: Any = getattr(dispatcher, "_cache", None)
        if hasattr(held, "_cache_file"):
            _seal(held._cache_file)
            held.load_overload = _loading(held, held.load_overload)
            held.save_overload = _saving(held, held.save_overload)


def _seal(file: Any) -> None:
    """Bind machine code to its content and to the types that it is for.

    Numba runs the code that it finds. Of two processes that save code for different types at once, one
    may write to the file that the other's index names.
    """
    save, load = file.save, file.load

    def save_data(name: str, data: Any) -> None:
        content = file._dump(data)
        with file._open_for_write(file._data_path(name)) as opened:
            opened.write(hashlib.sha256(content).digest() + content)

    def load_data(name: str) -> Any:
        held = Path(file._data_path(name)).read_bytes()
        if hashlib.sha256(held[SUM:]).digest() != held[:SUM]:
            raise ValueError(f"{name} is broken")
        return pickle.loads(held[SUM:])

    def load_of(types: Any) -> Any:
        of, data = load(types) or (None, None)
        return data if of == types else None

    file._save_data, file._load_data = save_data, load_data
    file.save, file.load = lambda types, data: save(types, (types, data)), load_of


def _loading(held: Any, load: Callable[..., Any]) -> Callable[..., Any]:
    def load_overload(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # a broken pickle raises anything
            with suppress(OSError):
                held.flush()
            return None

    return load_overload


def _saving(held: Any, save: Callable[..., Any]) -> Callable[..., Any]:
    def save_overload(*arguments: Any) -> None:
        with suppress(OSError, EOFError, pickle.PickleError):
            save(*arguments)
            place = Path(held.cache_path)
            for path in place.glob(f"{Path(held._cache_file._index_path).stem}.*"):
                path.chmod(_file_mode())

    return save_overload

"""Where generated modules live, and how they get there.

One folder by the platform's convention, or MUNTIN_CACHE_DIR. A module is written under another name
and renamed, so that processes that start at once never see half of it. In a folder that cannot be
written, modules live in memory and are compiled anew in each process.
"""

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType

import platformdirs

from muntin._version import __version__

_LOADED: dict[str, ModuleType] = {}
_LOADING = threading.RLock()


def folder() -> Path:
    """Return the folder for generated modules and their machine code."""
    chosen = os.environ.get("MUNTIN_CACHE_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("muntin")) / __version__


def load_module(text: str) -> ModuleType:
    """Return the module with this text, which Numba caches if the folder can be written."""
    import numba

    key = f"{text}\n{numba.__version__}\n{sys.version_info[:2]}"
    name = f"muntin_kernel_{hashlib.sha256(key.encode()).hexdigest()[:20]}"
    if name not in _LOADED:
        with _LOADING:
            if name not in _LOADED:
                _LOADED[name] = _run(name, text)  # other threads see a module that has run
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
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def memory_module(name: str, text: str, **names: object) -> ModuleType:
    """Return a module that lives in memory only, with the given names defined in it."""
    module = ModuleType(name)
    module.__dict__.update(CACHED=False, **names)
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module


def _written(name: str, text: str) -> Path | None:
    path = folder() / f"{name}.py"
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        return None
    return path

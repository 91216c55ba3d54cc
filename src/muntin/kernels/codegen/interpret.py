"""Loop files for an aggregate on objects, interpreted.

The functions of a loop file find lift, combine and lower among the globals of their file. A bound copy
has the same code with other globals, so a traceback and a debugger show the file and the line.
"""

from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from muntin.kernels.loops import object_partials

LOOPS = "muntin.kernels.loops."
"""Functions of these files are copied; what they import from elsewhere is called as it is."""


def bind(*modules: ModuleType, **names: Any) -> SimpleNamespace:
    """Return the functions of loop files, with some of the names that they use replaced.

    >>> from muntin.kernels.loops import slice_partials
    >>> loops = bind(slice_partials, U=int, lift=str, combine=lambda a, b: a + b, lower=str.upper)
    >>> partials, outs = ([None],), ([None],)
    >>> loops.fold_spans(([1, 2, 3],), [0], [3], partials, [0], 0)
    >>> loops.query_folds(partials, 0, [0], [1], outs)
    >>> outs
    (['123'],)
    """
    files = [vars(module) for module in modules]
    scope = {
        name: value for file in (vars(object_partials), *files) for name, value in file.items()
    }
    for name, value in scope.items():
        if isinstance(value, FunctionType) and value.__module__.startswith(LOOPS):
            copy = FunctionType(value.__code__, scope, value.__name__, value.__defaults__)
            scope[name] = copy
    scope.update(names)
    own = {n for file in files for n, value in file.items() if isinstance(value, FunctionType)}
    return SimpleNamespace(**{name: scope[name] for name in own})

"""Waiting without a limit that a busy machine can reach."""

import re

import pytest

HUNG_S = 600
"""Whoever waits for so long waits for something that will not come."""
LONGER_S = (1, 4, 16, 64, 256)
"""Time limits that are tried one after the other."""


def refused(kind, words, call):
    """Call with longer and longer time limits until it is refused with these words; return the error.

    A short limit may end before the reason was heard.
    """
    for limit in LONGER_S:
        with pytest.raises(kind) as raised:
            call(limit)
        if re.search(words, str(raised.value)):
            break
    assert re.search(words, str(raised.value))
    return raised.value


def answered(kind, call):
    """Call with longer and longer time limits until it is not refused; return what it gives."""
    for limit in LONGER_S[:-1]:
        try:
            return call(limit)
        except kind:
            continue
    return call(LONGER_S[-1])

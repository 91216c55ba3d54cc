"""Waiting without a limit that a busy machine can reach."""

import re
from collections.abc import Callable
from typing import Any

import pytest

HUNG_S = 600
"""Whoever waits for so long waits for something that will not come."""
LONGER_S = (1, 4, 16, 64, 256)
"""Time limits that are tried one after the other."""
TRIES = 20
NOT_CONNECTED = "Python worker failed to connect back"
"""What Spark says ten seconds after the start of a stream's Python process; the limit cannot be set."""


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


def ran(start: Callable[[], Any]) -> Any:
    """Start a stream and wait until it has ended; return the query.

    Where Spark has given up a Python process that was slow to start, the stream starts again from its
    checkpoint.
    """
    from pyspark.errors import StreamingQueryException  # slow, and most tests do without Spark

    for _ in range(TRIES):
        query = start()
        try:
            assert query.awaitTermination(HUNG_S)
        except StreamingQueryException as error:
            if NOT_CONNECTED not in str(error):
                raise
        else:
            return query
    raise AssertionError(f"{TRIES} times: {NOT_CONNECTED}")

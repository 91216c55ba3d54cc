"""What went wrong, on one line: Spark's errors carry plans and tracebacks of several processes."""

import re

RAISED = re.compile(r"^[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)
STATE = re.compile(r" *SQLSTATE: \w{5}")


def one_line(error: BaseException) -> str:
    """Return what an error says, without what surrounds it.

    >>> one_line(ValueError("a window's size must be above zero,\\n got 0"))
    "a window's size must be above zero, got 0"
    """
    text = str(error).strip() or type(error).__name__
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        text = _cause(text)
    return " ".join(text.split())


def _cause(text: str) -> str:
    """Return the last error that a traceback in the text ends with, else the first line."""
    before_the_plan = text.split("=== Streaming Query ===")[0]
    raised = RAISED.findall(before_the_plan)
    return STATE.sub("", raised[-1] if raised else text.splitlines()[0])

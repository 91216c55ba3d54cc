"""What may be printed: data without control characters, and addresses without their secrets."""

import re
import unicodedata

HIDDEN = "***"
USER = re.compile(r"(://)(?![^\s@/:]*:\d+/)(?:[^\s@/'\"]*:[^\s/]*|[^\s'\"]*)@")
"""user:password@ of an address; what looks like host:port/ is none."""
NAMES = (
    r"pass|pwd|secret|token|credential|api[-_.]?key|access[-_.]?key|private[-_.]?key|sasl|jaas|auth"
)
SETTING = re.compile(
    rf"([\w.-]*(?:{NAMES})[\w.-]*(?:['\"]\s*:\s*|\s*=\s*))"
    r"(\"[^\"]*\"|'[^']*'|[^\s&'\"](?:[^\s&]*[^\s&'\"),;}\]])?)",
    re.IGNORECASE,
)
"""password=..., "sasl.jaas.config": "..." and the like, wherever they are.

Without quotes a secret ends before a space or an &; the comma or bracket behind it is left.
"""


def printable(text: str, keep: str = "") -> str:
    r"""Return a text in which control characters are written out, so that no terminal obeys them.

    >>> printable("tv\x1b[2J\n"), printable("a\nb", keep="\n")
    ('tv\\x1b[2J\\n', 'a\nb')
    """
    return "".join(c if c in keep or _is_harmless(c) else _escaped(c) for c in text)


def _is_harmless(character: str) -> bool:
    # Cc: control, Cf: format (direction), Zl, Zp: separators of lines, Cs: halves of characters
    return unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp", "Cs")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode()


def masked(text: str) -> str:
    """Return a text without the passwords that addresses and settings in it have.

    >>> masked("s3a://me:pass/word@bucket/plugs, hdfs://host:9000/a?token=abc&b=1")
    's3a://***@bucket/plugs, hdfs://host:9000/a?token=***&b=1'
    """
    return SETTING.sub(rf"\g<1>{HIDDEN}", USER.sub(rf"\g<1>{HIDDEN}@", text))

"""Who may ask a server of muntin.

Without a token it listens on 127.0.0.1 only, and answers only those that ask for it by that name: a page
from elsewhere whose name was made to point here (DNS rebinding) sends its own name, and is refused. With
a token everybody has to send it, as the password of HTTP's basic authentication or as a bearer's token.
"""

import base64
import binascii
import hmac
import re
from http import HTTPStatus
from typing import Protocol

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost")
NAMES = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?", re.IGNORECASE)
"""The port may be another: people reach a remote machine's server through a tunnel."""
SHORTEST_TOKEN = 16
CHALLENGE = ("WWW-Authenticate", 'Basic realm="muntin", charset="UTF-8"')
"""The header that says how to send a token."""


class Headers(Protocol):
    """Headers of a request, by names in any case, read as Latin-1."""

    def get(self, name: str, default: str, /) -> str:
        """Return a header, or the default."""


def check_token(host: str, token: str | None) -> None:
    """Refuse a token that is too short, and none where other machines reach the server."""
    if token is None and host not in LOOPBACK:
        raise ValueError(
            f"other machines may reach the server on {host}: give it a token, or leave out the host"
        )
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isprintable()):
        raise ValueError(
            f"a token has at least {SHORTEST_TOKEN} characters that can be printed, got {len(token)}: "
            'make one with python -c "import secrets; print(secrets.token_urlsafe())"'
        )


def refusal(headers: Headers, token: str | None, what: str) -> tuple[HTTPStatus, str] | None:
    """Return the status and the reason for which a request is refused; None if it may be answered.

    headers: those of the request.
    token: the token of the server, if it has one.
    what: what is asked for, as in "this page".
    """
    if token is not None and not _knows(headers.get("Authorization", ""), token):
        return HTTPStatus.UNAUTHORIZED, f"send the token of {what} as the password"
    if token is None and not NAMES.fullmatch(headers.get("Host", "")):
        return HTTPStatus.FORBIDDEN, f"ask for {what} at {HOST} or localhost"
    return None


def _knows(authorization: str, token: str) -> bool:
    """Whether the token was sent; how long that takes does not depend on what was sent."""
    scheme, _, given = authorization.partition(" ")
    sent = given.strip().encode("latin-1")
    if scheme.lower() == "basic":
        try:
            sent = base64.b64decode(sent, validate=True).partition(b":")[2]
        except binascii.Error:
            sent = b""
    elif scheme.lower() != "bearer":
        sent = b""
    return hmac.compare_digest(sent, token.encode())

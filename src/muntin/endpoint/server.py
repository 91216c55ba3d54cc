"""The server: routes of Starlette, run by Uvicorn in a thread.

Each lookup runs in a thread of its own, so that one that waits for the store holds up no other.
"""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from muntin.endpoint.answers import Answers
from muntin.endpoint.description import description
from muntin.endpoint.metrics import Metrics
from muntin.endpoint.refusal import Refusal
from muntin.watch.access import CHALLENGE, HOST, check_token, refusal
from muntin.watch.prometheus import CONTENT

PATHS = ("/lookup", "/health", "/metrics", "/openapi.json")
OTHER = "other"
"""How paths that there are not are counted."""
BODY_S = 30.0
"""So many seconds a body may take to come."""
GRACE_S = 5
"""So many seconds requests have to end when the server stops."""
AT_ONCE = 1000
"""Connections; more are answered with 503."""
UNREAD = (401, 403, 404, 405, 408, 413)
"""Where a body may be left: the connection is closed, as nobody reads the rest."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class LookupServer:
    """A server of lookups; a context that ends it. `url` is where it is.

    - `answers`: what is answered.
    - `port`: where it is; 0 takes one that is free.
    - `host`: the address that it listens on; one that other machines reach needs a token.
    - `token`: what readers have to send, as a password with any name, or as `Authorization: Bearer`.
    """

    def __init__(
        self, answers: Answers, port: int = 0, host: str = HOST, token: str | None = None
    ) -> None:
        check_token(host, token)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family)
        except (OSError, OverflowError) as error:
            raise OSError(f"port {port} of {host} cannot be served: {error}") from error
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{listening.getsockname()[1]}"
        config = uvicorn.Config(
            Gate(answers, token),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=AT_ONCE,
            timeout_graceful_shutdown=GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="muntin serve", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving, when the requests that are being answered have ended."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Gate:
    """The application: refuses those who may not ask, and counts what is answered."""

    def __init__(self, answers: Answers, token: str | None) -> None:
        self._answers, self._token = answers, token
        self._metrics = Metrics()
        self._app = Starlette(
            routes=[
                Route("/lookup", self._lookup, methods=["POST"]),
                Route("/health", self._health),
                Route("/metrics", self._text),
                Route("/openapi.json", self._description),
            ],
            exception_handlers={
                HTTPException: _not_there,
                Refusal: _refused,
                Exception: _failed,
            },
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        began, status = time.monotonic(), HTTPStatus.INTERNAL_SERVER_ERROR.value

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = refusal(Headers(scope=scope), self._token, "this server")
        try:
            if refused is None:
                await self._app(scope, receive, watched)
            else:
                await _error(*refused)(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in PATHS else OTHER
            self._metrics.request(path, status, time.monotonic() - began)

    async def _lookup(self, request: Request) -> Response:
        body = await self._body(request)
        answer = await run_in_threadpool(self._answers.answer, body)
        self._metrics.keys(len(answer["rows"]))
        return _json(answer)

    async def _body(self, request: Request) -> bytes:
        """Return what was sent, or refuse what is too large or does not come."""
        limit, body = self._answers.limits.body, bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for piece in request.stream():
                    body += piece
                    if len(body) > limit:
                        raise Refusal(
                            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                            f"a body may have {limit} bytes: send several requests",
                        )
        except TimeoutError as error:
            reason = f"the body did not come within {BODY_S:g} seconds"
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, reason) from error
        except ClientDisconnect as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the body ended before its end") from error
        return bytes(body)

    async def _health(self, request: Request) -> Response:
        del request
        return _json(await run_in_threadpool(self._answers.health))

    async def _text(self, request: Request) -> Response:
        del request
        return Response(self._metrics.text(), media_type=CONTENT)

    async def _description(self, request: Request) -> Response:
        del request
        return _json(await run_in_threadpool(self._describe))

    def _describe(self) -> Any:
        lookup = self._answers.published()
        limits = self._answers.limits
        return description(lookup.query, lookup.key_types, lookup.time_type, limits)


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # ASCII: what was sent, and is told again, may have halves of characters
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text, status, headers, "application/json")


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    more = dict(headers or {})
    if status == HTTPStatus.UNAUTHORIZED:
        more |= [CHALLENGE]
    if status in UNREAD:
        more["Connection"] = "close"
    return _json({"error": reason}, status, more)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, Refusal)
    return _error(error.status, error.reason)


async def _not_there(request: Request, error: Exception) -> Response:
    """Say which paths there are, or by which methods one is asked."""
    assert isinstance(error, HTTPException)
    reason = f"there is {', '.join(PATHS)}"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        reason = f"{request.method} is not for this path: it takes {allowed}"
    return _error(error.status_code, reason, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    del request
    return _error(HTTPStatus.INTERNAL_SERVER_ERROR, f"the server failed: {type(error).__name__}")

"""The page's server: a few files, and a stream of drawings as server-sent events."""

import json
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from muntin.watch.access import CHALLENGE, HOST, LOOPBACK, check_token, refusal
from muntin.watch.board import Board
from muntin.watch.charts import View
from muntin.watch.history import HELD
from muntin.watch.prometheus import CONTENT, metrics

FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/figures.js": ("figures.js", "text/javascript"),
    "/axes.js": ("axes.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PAUSE = 0.25
"""Seconds between two drawings, at least; and three times as long as it takes to make one."""
SILENCE = 10.0
"""After this many seconds without news an empty line is sent, to find readers that are gone."""
GRACE = 2.0
"""So many seconds a page has to take the last drawing when the server stops."""
COLUMNS = range(50, 2001)
AGGREGATE = "aggregate."
MANY = 1000
"""A page asks with fewer parameters than this."""


class Server:
    """A board's server; a context that ends it. `url` is where the page is."""

    def __init__(self, board: Board, port: int, host: str, token: str | None) -> None:
        check_token(host, token)
        self._stop = threading.Event()
        self._board = board
        try:
            self._server = _Server((host, port), board, self._stop, token)
        except (OSError, OverflowError) as error:
            place = f"port {port}" if host in LOOPBACK else f"port {port} of {host}"
            raise OSError(
                f"the page cannot be served on {place}: {error}; port=0 takes one that is free"
            ) from error
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(PAUSE,), name="muntin watch", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving; open pages say that they are no longer live."""
        self._stop.set()
        self._board.wake()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for thread in list(self._server.looking):
            thread.join(GRACE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def serve(board: Board, port: int = 0, host: str = HOST, token: str | None = None) -> Server:
    """Serve a board's page, and its figures for Prometheus at /metrics.

    board: what the page shows.
    port: where it is; 0 takes one that is free.
    host: the address that it listens on; one that other machines reach needs a token.
    token: what readers have to send, at least 16 characters: as a password with any name, or as
        `Authorization: Bearer`. It travels as it is: put a proxy with TLS before the page, or a tunnel.
    """
    return Server(board, port, host, token)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], board: Board, stop: threading.Event, token: str | None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.token = token
        self.board = board
        self.stop = stop
        self.looking: set[threading.Thread] = set()
        page = files("muntin.watch") / "page"
        self.contents = {path: (page / name).read_bytes() for path, (name, _) in FILES.items()}
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "muntin"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Send a file of the page, or drawings as long as someone looks."""
        path, _, parameters = self.path.partition("?")
        try:
            refused = refusal(self.headers, self.server.token, "this page")
            if refused is not None:
                self._refuse(*refused)
            elif path == "/metrics":
                text = metrics(self.server.board.figures())
                self._send(HTTPStatus.OK, CONTENT, text.encode())
            elif path in FILES:
                self._send(HTTPStatus.OK, FILES[path][1], self.server.contents[path])
            elif path == "/events":
                self._events(parameters)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # nobody looks any more

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Keep silent: the terminal belongs to the query."""

    def _events(self, parameters: str) -> None:
        """Send drawings to someone who looks, if it is clear at what."""
        try:
            view = read_view(parse_qs(parameters, max_num_fields=MANY))
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._head(HTTPStatus.OK, "text/event-stream")
        self.server.looking.add(threading.current_thread())
        try:
            self._draw(view)
        finally:
            self.server.looking.discard(threading.current_thread())

    def _draw(self, view: View) -> None:
        """Send drawings as the board changes, and when the server stops the last one."""
        board, stop, seen = self.server.board, self.server.stop, -1
        self._event("about", board.about())
        while True:
            version = board.wait(seen, SILENCE, stop)
            began = time.monotonic()
            if version != seen:
                drawing = board.drawing(view)
                self._event("drawing", drawing)
                view, seen = replace(view, keys=tuple(drawing["shown"])), version
            elif stop.is_set():
                return
            else:
                self.wfile.write(b":\n\n")
            stop.wait(max(PAUSE, 3 * (time.monotonic() - began)))

    def _event(self, name: str, data: Any) -> None:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        self.wfile.write(f"event: {name}\ndata: {text}\n\n".encode())

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, "text/plain", f"{reason}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        if length is not None:
            self.send_header("Content-Length", str(length))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header(*CHALLENGE)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()


def read_view(parameters: Mapping[str, list[str]]) -> View:
    """Return what a page asks to see, or say what is wrong with it.

    >>> read_view({"columns": ["640"], "last": ["100"], "chosen": ["yes"], "key": ["3", "7"]})
    View(columns=640, last=100, keys=(3, 7), chosen=True, aggregates={})
    """
    return View(
        columns=_whole(parameters, "columns", COLUMNS),
        last=_whole(parameters, "last", range(HELD + 1)),
        keys=tuple(int(key) for key in parameters.get("key", [])),
        chosen="chosen" in parameters,
        aggregates={
            name.removeprefix(AGGREGATE): values[-1]
            for name, values in parameters.items()
            if name.startswith(AGGREGATE)
        },
    )


def _whole(parameters: Mapping[str, list[str]], name: str, allowed: range) -> int:
    number = int(parameters.get(name, ["-1"])[-1])
    if number not in allowed:
        raise ValueError(f"{name} is from {allowed[0]} to {allowed[-1]}, got {number}")
    return number

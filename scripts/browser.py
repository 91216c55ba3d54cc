"""Find a browser for the tests of the live page, or bring one: `python -m scripts.browser`.

Where there is none and none can be installed, those tests are skipped.
"""

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the path of a browser that starts."""
    paths = [path for path in map(shutil.which, NAMES) if path]
    return next((path for path in paths if _succeeds([path, "--version"])), None)


def bring() -> None:
    """Install Chromium with apt-get, if root or sudo without a password allows it."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    allowed = not as_root or (shutil.which("sudo") and _succeeds([*as_root, "true"]))
    if shutil.which("apt-get") and allowed:
        print("installing Chromium, for the tests of the live page")
        apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
        _succeeds([*apt, "update"])
        _succeeds([*apt, "install", "-y", "chromium"])


def _succeeds(command: list[str]) -> bool:
    """Run a command in silence."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    if not find():
        bring()
    print(find() or "no browser, and none could be installed: tests of the page will be skipped")

"""curl, and a console in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from virtuallog.rpc.security.tls_files import TlsFiles

PATIENCE_SECONDS = 60
COMMAND = (sys.executable, "-P", "-m", "virtuallog_server")


def until(is_so: Callable[[], bool]) -> None:
    """Wait for another process."""
    deadline = time.monotonic() + PATIENCE_SECONDS  # noqa: TID251 -- real processes
    while not is_so():
        assert time.monotonic() < deadline  # noqa: TID251 -- the same
        time.sleep(0.05)  # noqa: TID251 -- the same


@attrs.frozen
class Curl:
    """Calls of one console by one caller."""

    url: str
    files: TlsFiles | None = None

    def command(self, path: str, *options: str) -> list[str]:
        """The command line of one call."""
        identity: Sequence[str] = ()
        if self.files is not None:
            paths = (self.files.authority, self.files.certificate, self.files.key)
            identity = ("--cacert", str(paths[0]), "--cert", str(paths[1]), "--key", str(paths[2]))
        return ["curl", "-sS", "-N", "-m", str(PATIENCE_SECONDS), *identity, *options, self.url + path]

    def status(self, path: str, *options: str) -> int:
        """Status of the answer; 0 if there is none."""
        done = subprocess.run(
            self.command(path, "-o", "/dev/null", "-w", "%{http_code}", *options), capture_output=True, check=False
        )
        return int(done.stdout)

    def body(self, path: str, *options: str) -> str:
        """Body of the answer."""
        return subprocess.run(self.command(path, *options), capture_output=True, check=True, text=True).stdout


@contextmanager
def console_process(folder: Path, *arguments: str) -> Iterator[str]:
    """`virtuallog console` with these arguments on a free port; gives its URL."""
    path = folder / "console.out"
    with path.open("wb") as output:
        started = subprocess.Popen(
            [*COMMAND, "console", "--listen", "127.0.0.1:0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: b"try: curl" in path.read_bytes() or started.poll() is not None)
        assert started.poll() is None, path.read_text()
        yield path.read_text().splitlines()[0].partition(": ")[2]
        started.terminate()
        assert started.wait(PATIENCE_SECONDS) == 0, path.read_text()
    finally:
        started.kill()
        started.wait()

"""The command `virtuallog` in a process that kills itself: `python -m tests.server.backup.killed_command POINT ARGUMENT...`."""

from __future__ import annotations

import os
import signal
import sys

from virtuallog.contract.crash_points import CrashPoint, hooked
from virtuallog_server.cli import main


def run(name: str, arguments: list[str]) -> None:
    """Run the command up to the crash point of this name."""

    def die(point: CrashPoint) -> None:
        if point.name == name:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.argv[1:] = arguments
    with hooked(die):
        main()


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])

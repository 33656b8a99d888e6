"""ZooKeeper's own command line, zkCli.sh, as Debian packages it: one session with commands on stdin, and its output.

`python -m tests.interop.command_line HOST:PORT` writes a server's answers as `zkcli/said.txt` and `zkcli/refused.txt`: run it
against a ZooKeeper with reconfigEnabled and extendedTypesEnabled, and the test compares ours with it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

SCRIPT: Final = Path("/usr/share/zookeeper/bin/zkCli.sh")
FOLDER: Final = Path(__file__).with_name("zkcli")
SECONDS: Final = 120
_EVENT: Final = re.compile(r"\n(?:WATCHER::|(WatchedEvent .*))\n")
"""Two lines with an empty one before each, by a thread that may write in the middle of an answer's line, or of its own two."""
_DIFFERING: Final = (
    (re.compile(r"0x(?!0\b)[0-9a-f]+"), "0x?"),
    (re.compile(r"time = .*"), "time = ?"),
    (re.compile(r"(?:server\.\d+=\S+\n)+version=\S+"), "(servers)"),
    (re.compile(r"connect \S+:\d+"), "connect HOST"),
    (re.compile(r"Connecting to .*"), "Connecting"),
)
"""Parts that differ on each server and each day."""
_LIST: Final = re.compile(r"^\[(.*)\]$", re.MULTILINE)
"""Ephemerals come in no order."""
_NOISE: Final = re.compile(r"^(?:SLF4J|log4j|\s+at |org\.apache|\s*$).*\n?", re.MULTILINE)


def is_installed() -> bool:
    return SCRIPT.exists() and shutil.which("java") is not None


@attrs.frozen
class Said:
    """The output, without the parts that differ each time. Its two streams and its events come from several threads: each in its order."""

    answers: str
    refusals: str
    events: Sequence[str]


def talk(address: str) -> Said:
    """Run one session at a server. Takes some three seconds, most of them for Java."""
    commands = (FOLDER / "commands.txt").read_text().replace("HOST", address)
    # The interpreter alone, no compiler: it starts sooner, and lives for a second.
    environment = {
        "PATH": "/usr/bin:/bin",
        "JVMFLAGS": "-Xmx64m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "ZOO_LOG_DIR": "/tmp",
    }
    done = subprocess.run(
        [str(SCRIPT), "-server", address], input=commands, capture_output=True, text=True, timeout=SECONDS, check=False,
        env=environment,
    )  # fmt: skip
    answers, events = parted(done.stdout)
    return Said(_normal(answers), _normal(done.stderr), events)


def parted(output: str) -> tuple[str, list[str]]:
    """Answers, and events of watches."""
    events = [event for event in _EVENT.findall(output) if event and "type:None" not in event]
    return _EVENT.sub("", output), events


def _normal(text: str) -> str:
    text = _LIST.sub(lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]", text)
    for pattern, same in _DIFFERING:
        text = pattern.sub(same, text)
    return _NOISE.sub("", text)


def record(said: Said) -> None:
    (FOLDER / "said.txt").write_text(said.answers)
    (FOLDER / "refused.txt").write_text(said.refusals)
    (FOLDER / "events.txt").write_text("".join(f"{event}\n" for event in said.events))


if __name__ == "__main__":
    record(talk(sys.argv[1]))

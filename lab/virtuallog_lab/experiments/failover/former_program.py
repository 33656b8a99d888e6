"""The last program that spoke one version of the protocol less than this one, installed beside it. Needs the checkout and its history.

    DIR/source     the files of `COMMIT`
    DIR/installed  what pip makes of them, with the version `SOFTWARE`

Third-party packages are those of this environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from virtuallog_lab.harness.program import PeerError

COMMIT: Final = "b8c58f6a93caf37aa375df091b374918d3cc05a9"
"""Before logs that are replicated by Raft. Change it with the newest version of the protocol."""
PROTOCOL: Final = 5
"""Newest version of the protocol that it speaks."""
SOFTWARE: Final = "0.0.9"
"""Version that it gets. It was never released, and would have that of this program."""


def install(folder: Path) -> Sequence[str]:
    """Install it into a new folder; returns the command that runs it, as `LocalNode.program` is one.

    Raises:
        PeerError: the history has no such commit, or pip failed.
    """
    source, installed = folder / "source", folder / "installed"
    source.mkdir(parents=True)
    here = Path(__file__).parent
    top = _run("git", "-C", here, "rev-parse", "--show-toplevel").decode().strip()
    archive = _run("git", "-C", top, "archive", COMMIT)
    subprocess.run(["tar", "--extract", "--directory", source], input=archive, check=True)
    project = source / "pyproject.toml"
    project.write_text(
        re.sub(r'^version = ".*"$', f'version = "{SOFTWARE}"', project.read_text(), count=1, flags=re.MULTILINE)
    )
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    _run(*pip, "--target", installed, source)
    return ("env", f"PYTHONPATH={installed}", sys.executable, "-P", "-m", "virtuallog_server")


def _run(*command: str | Path) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise PeerError(f"{' '.join(map(str, command[:4]))}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout

"""Steps of building client programs from their sources."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from tests.clients.client_program import Command


def run(command: Command, environment: Mapping[str, str] | None = None) -> None:
    """Run a step; what it says is the error if it fails."""
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

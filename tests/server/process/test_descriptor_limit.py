"""Connections never get the last descriptors of a process."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from virtuallog_server.process.resources import RESERVED

PROGRAM = """
import resource, sys
from virtuallog_server.process.resources import allow_connections
from virtuallog.contract.errors import InvalidSettingError
soft, hard, wanted = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    print(allow_connections(wanted), *resource.getrlimit(resource.RLIMIT_NOFILE))
except InvalidSettingError as error:
    print(error)
"""


def allowed(soft: int, hard: int, wanted: int) -> str:
    """Output of a process with these limits; in a process of its own, as a hard limit cannot be raised again."""
    arguments = [sys.executable, "-c", PROGRAM, str(soft), str(hard), str(wanted)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.processes
@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096, reason="this machine allows too few files")
def test_limit_is_raised_and_else_connections_give_way() -> None:
    """Up to the hard limit; where that is too low there are fewer connections, and in the end no node."""
    assert allowed(1024, 4096, 1024) == f"1024 {1024 + RESERVED} 4096"
    assert allowed(4096, 4096, 1024) == "1024 4096 4096"
    assert allowed(256, 1024, 1024) == f"{1024 - RESERVED} 1024 1024"
    assert "is not enough" in allowed(256, 512, 1024)

"""Packages of Debian that tests need: installed if they are missing and may be; else the test is skipped, loudly."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

NO_SERVICES = Path("/usr/sbin/policy-rc.d")
"""Keeps Debian from starting what it installs."""


def require(name: str, is_installed: Callable[[], bool], *packages: str) -> None:
    """Skip the test, loudly, if `name` is not here and cannot be had."""
    if is_installed():
        return
    reason = f"{name} is not installed, and cannot be: needs root and apt-get"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        reason = f"{name} is not installed, and apt-get failed: {_install(packages)}"
    if not is_installed():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"{reason}: WHAT NEEDS {name.upper()} IS NOT TESTED", stacklevel=2)
        pytest.skip(reason)


def _install(packages: tuple[str, ...]) -> str:
    made = not NO_SERVICES.exists()
    if made:
        NO_SERVICES.write_text("#!/bin/sh\nexit 101\n")
        NO_SERVICES.chmod(0o755)
    try:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(
                ["apt-get", "-q", *arguments], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                return done.stderr[-300:]
    finally:
        if made:
            NO_SERVICES.unlink()
    return ""

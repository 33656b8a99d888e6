"""A first try without a checkout: `pipx`, from a wheel, with what PyPI has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT

LIMIT_SECONDS = 900.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which pipx keeps all that it makes below the test's folder."""
    homes = {name: str(tmp_path / name.lower()) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
    return {**os.environ, **homes, "NO_COLOR": "1"}


def run(folder: Path, environment: dict[str, str], *command: str) -> str:
    """Output of a command, which must succeed."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
def test_the_demo_runs_without_a_checkout(tmp_path: Path, environment: dict[str, str]) -> None:
    """`pipx run` shows the whole; `pipx install` puts command and manual page in place."""
    run(
        ROOT,
        environment,
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        ".",
    )
    (wheel,) = tmp_path.glob("virtuallog-*.whl")
    pipx = (sys.executable, "-m", "pipx")

    shown = run(tmp_path, environment, *pipx, "run", "--spec", str(wheel), "virtuallog", "demo", "--phase", "1")
    run(tmp_path, environment, *pipx, "install", "--quiet", str(wheel))

    assert "nothing lost" in shown
    assert (tmp_path / "virtuallog-demo.html").stat().st_size > 0
    command = str(tmp_path / "pipx_bin_dir" / "virtuallog")
    assert run(tmp_path, environment, command, "--version").startswith("virtuallog 0.")
    assert (tmp_path / "pipx_man_dir" / "man1" / "virtuallog.1").exists()

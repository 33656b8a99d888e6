"""Gives `virtuallog` commands as an operator does, and kills them with all that they have started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog_lab.experiments.churn.client import CLOCK
from virtuallog_server.local_cluster.supervisor import PROGRAM

POLL_SECONDS: Final = 0.01
LIMIT_SECONDS: Final = 900.0
"""Seconds for one command. A JVM starts in seconds where there is nothing else to do."""
SPARK: Final = ("--master", "local[2]", "--conf", "spark.driver.memory=1g")


@attrs.frozen
class Commands:
    """Commands of one cluster.

    Args:
        cluster: its cluster.toml.
        folder: where a command that is killed has its output.
    """

    cluster: Path
    folder: Path

    async def run(self, *arguments: str) -> str:
        """Stdout of a command that ends well.

        Raises:
            UnavailableError: it failed, or takes too long; with its last words.
        """
        with CLOCK.timeout(LIMIT_SECONDS):
            done = await trio.run_process(
                [*PROGRAM, *arguments],
                env=self._environment,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
            if done.returncode:
                raise UnavailableError(f"{_shown(arguments)}: {done.stderr.decode()[-1000:]}")
            return done.stdout.decode()
        raise UnavailableError(f"{_shown(arguments)} takes more than {LIMIT_SECONDS:g} s")

    async def tell(self, *arguments: str) -> Any:
        """JSON output of a command of Spark."""
        return json.loads(await self.run("spark", *arguments, *SPARK, "--json"))

    async def kill_when(self, moment: Callable[[], bool], *arguments: str) -> bool:
        """Give a command of Spark, and kill it as soon as the moment is there; whether it was killed before its end.

        Raises:
            UnavailableError: neither the moment nor its end has come.
        """
        output = self.folder / "killed"
        with output.open("ab") as file:
            process = await trio.lowlevel.open_process(
                [*PROGRAM, "spark", *arguments, *SPARK],
                env=self._environment, start_new_session=True, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            with CLOCK.timeout(LIMIT_SECONDS):
                while process.poll() is None and not moment():
                    await CLOCK.sleep(POLL_SECONDS)
                return process.poll() is None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with trio.CancelScope(shield=True):  # dead: this ends at once
                await process.wait()
        raise UnavailableError(f"{_shown(arguments)} takes more than {LIMIT_SECONDS:g} s; see {output}")

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "VIRTUALLOG_CLUSTER": str(self.cluster), "PYSPARK_PYTHON": sys.executable}


def _shown(arguments: tuple[str, ...]) -> str:
    return f"virtuallog {' '.join(arguments)}"

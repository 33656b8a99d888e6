"""End of the commands of `virtuallog spark` at a signal, or if Spark does not start: real processes, each with a Java of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from tests.spark.java import require_java
from tests.spark.one_node import log_of_one_node

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]
HEARS = ("env", "--default-signal=INT,TERM")
"""A shell's background jobs, and their children, ignore Ctrl-C."""
COMMAND = (sys.executable, "-P", "-m", "virtuallog_server", "spark")
LIMIT_SECONDS = 600
"""Limit for a Java to start, or to end, on a busy machine."""
ENTRIES = 200_000
"""Number of entries; to read them takes a second or more."""


def processes_of(session: int) -> dict[int, str]:
    """Command lines of the processes that are alive in a session: Python, Java, and the processes of Python that Java has started."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of_session = path.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
            line = path.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it has ended
        if int(of_session) == session and state != "Z":
            found[int(path.name)] = line
    return found


async def wait_until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(LIMIT_SECONDS):
        while not is_so():
            await trio.sleep(0.2)


async def ended(arguments: list[str], moment: str | None, number: signal.Signals, folder: Path) -> tuple[int, str, str]:
    """Give the command; once one of its processes has this in its command line, send it a signal. Returns when nothing of it is left:
    its exit code, and what it has said."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(  # noqa: ASYNC220 -- signals are sent from here
        [*HEARS, *COMMAND, arguments[0], "--master", "local[2]", *arguments[1:]], env=environment, start_new_session=True, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        if moment is not None:
            await wait_until(
                lambda: any(moment in line for line in processes_of(process.pid).values()) or process.poll() is not None
            )
            process.send_signal(number)
        out, err = await trio.to_thread.run_sync(lambda: process.communicate(timeout=LIMIT_SECONDS))
        await wait_until(lambda: not processes_of(process.pid))
    finally:
        for left in processes_of(process.pid):
            os.kill(left, signal.SIGKILL)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("name", "moment", "number"),
    [
        ("audit", "SparkSubmit", signal.SIGINT),
        ("audit", "pyspark.daemon", signal.SIGINT),
        ("archive", "pyspark.daemon", signal.SIGINT),
        ("archive", "pyspark.daemon", signal.SIGTERM),
        ("restore", "pyspark.daemon", signal.SIGTERM),
    ],
)
async def test_a_command_that_is_interrupted_leaves_nothing(
    tmp_path: Path, name: str, moment: str, number: signal.Signals
) -> None:
    """By Ctrl-C or by SIGTERM, while Java starts or in the middle: the exit code of an interrupted program, not a word, no process, no
    file of work, and the log is as it was."""
    require_java()
    place, work = tmp_path / "place", tmp_path / "work"
    work.mkdir()
    async with log_of_one_node(tmp_path) as (cluster, log):
        for _ in range(ENTRIES // 50_000):
            await log.append_many([b"entry"] * 50_000)
        await log.reconfig_extend("native")
        register = await log.view.refresh()
        arguments = {
            "archive": ["archive", "all", "--cluster", cluster, "--to", str(place)],
            "audit": ["audit", "--cluster", cluster],
            "restore": ["restore", "--from", cluster, "--into", str(place)],
        }[name]
        code, out, err = await ended(arguments, moment, number, work)
        assert (code, out, err) == (130, "", "")
        assert await log.view.refresh() == register
    assert [*place.rglob("manifest.json"), *place.rglob("origin.json")] == []
    assert [path.name for path in work.iterdir() if not path.name.startswith("hsperfdata")] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--master", "nowhere"], "Spark does not start: "),
        (["--conf", "spark.driver.memory=many"], "Spark does not start: "),
        (["--conf", "spark.executor.cores=none"], "Executor cores must be a positive number"),
    ],
)
async def test_a_spark_that_does_not_start_says_why(tmp_path: Path, arguments: list[str], said: str) -> None:
    """In a line, of the hundred that Java prints."""
    require_java()
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('[[node]]\nid = 1\naddress = "127.0.0.1:9"\n')
    given = ["audit", "--cluster", str(cluster), *arguments]
    code, out, err = await ended(given, None, signal.SIGTERM, tmp_path)

    assert (code, out, len(err.splitlines())) == (1, "", 1), err
    assert err.startswith("virtuallog: ")
    assert said in err

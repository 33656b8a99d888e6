"""Bad input, for every command of `virtuallog spark`: one line that says what is wrong, the right exit code, and nothing is published.

Most of it is refused before a Java is started, so the first tests take no time. What needs Spark shares the session of the folder, but for
those tests that end processes (`test_ending.py`). Of the source and the sink see `test_source.py`, `test_spark_source.py`, `test_sink.py`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from pyspark_virtuallog import cli, session
from tests.spark.one_node import in_thread, log_of_one_node
from virtuallog_server.cli import main

UNREACHABLE = '[[node]]\nid = 1\naddress = "127.0.0.1:9"\n'
"""Leads to a port without a listener (discard, a privileged one)."""
COMMANDS = {
    "archive": ("archive", "all", "--cluster", "CLUSTER", "--to", "PLACE"),
    "audit": ("audit", "--cluster", "CLUSTER"),
    "compact": ("compact", "--cluster", "CLUSTER", "--to", "PLACE", "--work", "WORK"),
    "restore": ("restore", "--from", "CLUSTER", "--into", "PLACE"),
}
every_command = pytest.mark.parametrize("name", COMMANDS)
NO_JAVA = {"JAVA_HOME": "/nowhere"}


@attrs.frozen
class Folder:
    """Folder of a test's files; words in capitals stand for them."""

    path: Path

    def spelled(self, words: tuple[str, ...]) -> list[str]:
        return [str(self.path / word.lower()) if word.partition("/")[0].isupper() else word for word in words]

    def run(self, *words: str, **environment: str) -> Result:
        """Give `virtuallog spark ...` here, with no Java unless `environment` says otherwise."""
        return CliRunner().invoke(main, ["spark", *self.spelled(words)], env={**NO_JAVA, **environment})

    @property
    def is_untouched(self) -> bool:
        """Nothing has been made but the file of the cluster."""
        return {path.name for path in self.path.iterdir()} <= {"cluster", "file"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """With the file of a cluster that does not answer, and one that is something else."""
    (tmp_path / "cluster").write_text(UNREACHABLE)
    (tmp_path / "file").write_text("a file")
    return Folder(tmp_path)


def check(result: Result, code: int, words: str) -> None:
    """It has failed as it should, and nothing but one line was said."""
    assert result.exit_code == code, (result.output, result.exception)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("virtuallog: ")
    assert words in lines[0]


@every_command
@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--colour", "red"), 2, "No such option"),
        (("--conf", "spark.driver.memory"), 2, "is not K=V"),
        (("--conf", "=4g"), 2, "is not K=V"),
        (("--master",), 2, "requires an argument"),
    ],
)
def test_options_that_are_wrong_are_wrong_usage(
    folder: Folder, name: str, more: tuple[str, ...], code: int, words: str
) -> None:
    """For all commands: nothing is started."""
    check(folder.run(*COMMANDS[name], *more), code, words)
    assert folder.is_untouched


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("archive", "all", "--cluster", "CLUSTER"), 2, "Missing option '--to'"),
        (("archive", "--cluster", "CLUSTER", "--to", "PLACE"), 2, "Missing argument"),
        ((*COMMANDS["archive"], "--file-bytes", "1"), 2, "not in the range"),
        ((*COMMANDS["archive"], "--grace", "nan"), 2, "is not from 0"),
        (("archive", "all", "--cluster", "CLUSTER", "--to", "s3://user:secret@bucket/x"), 1, "user or a password"),
        ((*COMMANDS["audit"], "--start", "-1"), 2, "not in the range"),
        ((*COMMANDS["audit"], "--start", "9", "--stop", "8"), 2, "--start 9 is behind --stop 8"),
        ((*COMMANDS["audit"], "--depth", "0"), 2, "not in the range"),
        ((*COMMANDS["audit"], "--page", "NOWHERE/page.html"), 2, "is no directory that can be written to"),
        ((*COMMANDS["audit"], "--page", "."), 2, "is a directory"),
        (("compact", "--cluster", "CLUSTER", "--to", "PLACE", "--work", "FILE"), 2, "is a file"),
        ((*COMMANDS["restore"], "--position", "1", "--time", "2026-11-22"), 2, "exclude each other"),
        ((*COMMANDS["restore"], "--time", "yesterday"), 2, "is no time such as"),
        ((*COMMANDS["restore"], "--no-state"), 2, "nothing is left to restore"),
        ((*COMMANDS["restore"], "--cluster-id", "xyz"), 2, "is no id of a cluster"),
        ((*COMMANDS["restore"], "--from", "CLUSTER"), 2, "one log at a time"),
        (("restore", "--into", "PLACE"), 2, "Missing option '--from'"),
    ],
)
def test_what_one_command_cannot_take_is_wrong_usage(
    folder: Folder, words: tuple[str, ...], code: int, said: str
) -> None:
    """Nothing is started for that."""
    check(folder.run(*words), code, said)
    assert folder.is_untouched


@pytest.mark.parametrize("name", ["archive", "audit", "compact"])
def test_a_cluster_that_cannot_be_named_is_told_before_java_starts(folder: Folder, name: str) -> None:
    """Not there, none, or no file of a cluster."""
    words = COMMANDS[name]
    check(folder.run(*(word.replace("CLUSTER", "MISSING") for word in words)), 1, "cannot be read")
    check(folder.run(*(word.replace("CLUSTER", "FILE") for word in words)), 1, str(folder.path / "file"))
    check(
        folder.run(words[0], *words[words.index("CLUSTER") + 1 :], *words[1 : words.index("--cluster")]),
        2,
        "name the cluster",
    )


@pytest.mark.parametrize("name", ["archive", "audit", "compact"])
def test_without_java_it_says_what_to_install(folder: Folder, name: str) -> None:
    """JAVA_HOME leads nowhere here."""
    check(folder.run(*COMMANDS[name]), 1, "there is no Java here. Spark needs Java 17 or newer: install it")


@every_command
def test_without_pyspark_it_says_what_to_install(folder: Folder, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are listed all the same, and each names the missing package, for any options."""
    monkeypatch.setattr(cli, "find_spec", lambda package: None if package == "pyspark" else object())

    check(folder.run(*COMMANDS[name]), 1, "needs pyspark: pip install 'virtuallog[spark]'")
    assert name in folder.run("--help").output


def test_a_restore_asks_before_it_makes_anything(folder: Folder) -> None:
    """Also without Java: of a log that does not answer, of places in which there is nothing, and of what is no place."""
    check(folder.run(*COMMANDS["restore"]), 3, "no node of the cluster can be used")
    check(folder.run("restore", "--from", "NOTHING", "--into", "PLACE"), 1, "nothing")
    check(folder.run("restore", "--from", "nope://x", "--into", "PLACE"), 1, "nope")
    assert folder.is_untouched


# -- with Spark -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the session of the tests rather than one of their own, which would end with them."""

    @contextmanager
    def open_shared(*_: object, **__: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(session, "open_session", open_shared)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk that has no room for anything."""
    path = tmp_path / "full"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", path], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    with suppress(OSError), (path / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    yield path
    subprocess.run(["umount", path], check=True)


CASES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no node answers an audit": (COMMANDS["audit"], 3, "no node of the cluster can be used"),
    "no node answers an archive": (COMMANDS["archive"], 3, "no node of the cluster can be used"),
    "no node answers a compaction": (COMMANDS["compact"], 3, "no node of the cluster can be used"),
    "past the tail": (("audit", "--cluster", "LOG", "--stop", "100000"), 1, "position 100000 is past the tail 600"),
    "no such segment": (("archive", "9.9", "--cluster", "LOG", "--to", "PLACE"), 1, "9.9"),
    "an open segment": (("archive", "OPEN-SEGMENT", "--cluster", "LOG", "--to", "PLACE"), 1, "open"),
    "a place that is a file": (("archive", "all", "--cluster", "LOG", "--to", "FILE"), 1, "Not a directory"),
    "a full disk": (("archive", "all", "--cluster", "LOG", "--to", "FULL"), 3, "No space left on device"),
    "no database": (
        ("compact", "--cluster", "LOG", "--to", "PLACE", "--work", "WORK"),
        1,
        "no database stands on its log",
    ),
    "past the end": (("restore", "--from", "LOG", "--into", "PLACE", "--position", "601"), 1, "601 is not within"),
    "into a file": (("restore", "--from", "LOG", "--into", "FILE"), 1, "Not a directory"),
    "into a full disk": (("restore", "--from", "LOG", "--into", "FULL/into"), 3, "No space left on device"),
    "into something else": (("restore", "--from", "LOG", "--into", "."), 1, "is not empty"),
}


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("shared", "full")
async def test_what_only_shows_when_it_is_tried_is_one_line_too(folder: Folder) -> None:
    """With a real log, and clusters that do not answer; afterwards the log is as it was, and
    nothing has been published."""
    async with log_of_one_node(folder.path / "node") as (cluster, log):
        await log.append_many([b"%d" % number for number in range(300)])
        await log.reconfig_extend("native")
        await log.append_many([b"%d" % number for number in range(300)])
        (folder.path / "log").symlink_to(cluster)
        register = await log.view.refresh()
        names = {"OPEN-SEGMENT": str(register.chain.last.id), ".": str(folder.path)}
        for what, (words, code, said) in CASES.items():
            run: Callable[[], Any] = partial(folder.run, *(names.get(word, word) for word in words), JAVA_HOME="")
            result = await in_thread(run)
            try:
                check(result, code, said)
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from error
        assert await log.view.refresh() == register
        published = [path for name in ("manifest.json", "origin.json") for path in folder.path.rglob(name)]
        assert published == []

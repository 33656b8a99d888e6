"""Scratch folders: removed at the end, and after a kill by the next job, which touches no folder of a process that lives."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from virtuallog.contract.errors import StorageError
from virtuallog.runtime.scratch_folder import remove_remains, scratch_folder

SCRIPT = """
import sys, time
from pathlib import Path
from virtuallog.runtime.scratch_folder import scratch_folder
with scratch_folder("history", Path(sys.argv[1])) as work:
    (work / "store").mkdir()
    (work / "store" / "table.sst").write_bytes(bytes(1000))
    print(work, flush=True)
    time.sleep(1000)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_gone_after_its_block(tmp_path: Path) -> None:
    """Also after an error, and with what is in it."""

    def fails() -> None:
        with scratch_folder("verify", tmp_path) as work:
            (work / "a" / "b").mkdir(parents=True)
            (work / "a" / "b" / "c").write_bytes(b"1")
            assert work.parent.stat().st_mode & 0o077 == 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert names(tmp_path) == []


def test_what_a_killed_process_has_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """As long as the process lives, nothing is touched."""
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        try:
            with scratch_folder("backup", tmp_path):
                assert (left / "store" / "table.sst").exists()
        finally:
            process.send_signal(signal.SIGKILL)
    assert (left / "store" / "table.sst").exists()

    with scratch_folder("backup", tmp_path) as work:
        assert names(tmp_path) == [work.parent.name]


def test_a_removal_that_was_killed_goes_on(tmp_path: Path) -> None:
    """At each of its steps: some files are gone, all of them, and the folder of them."""
    for step in range(3):
        left = tmp_path / f"virtuallog-verify-{step:08d}"
        left.mkdir()
        (left / "LOCK").touch()
        if step < 2:
            (left / "work").mkdir()
        if step < 1:
            (left / "work" / "file").touch()

    assert len(remove_remains(tmp_path)) == 3
    assert names(tmp_path) == []


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """Without a lock file, with another name, a file, and a link to a folder of our own."""
    (tmp_path / "virtuallog-verify-12345678").mkdir()
    for name in ("virtuallog-verify-1", "another", "virtuallog-verify-123456789"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "LOCK").touch()
    (tmp_path / "virtuallog-verify-abcdefgh").touch()
    (tmp_path / "virtuallog-verify-linkedto").symlink_to(tmp_path / "another")
    before = names(tmp_path)

    assert remove_remains(tmp_path) == []
    assert names(tmp_path) == before


def test_jobs_at_the_same_time_leave_each_other_alone(tmp_path: Path) -> None:
    """Each begins with a look for remains, while others are making their folders and removing them."""

    def job(number: int) -> int:
        for turn in range(40):
            with scratch_folder("history", tmp_path) as work:
                (work / "file").write_text(f"{number}.{turn}")
                remove_remains(tmp_path)
                assert (work / "file").read_text() == f"{number}.{turn}"
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(job, range(8))) == list(range(8))
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The folder above is missing."""
    with pytest.raises(StorageError, match="missing"), scratch_folder("history", tmp_path / "missing"):
        raise AssertionError("there is no folder")

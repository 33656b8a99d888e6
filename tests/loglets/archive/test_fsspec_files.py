"""Files through fsspec: on a disk, in memory; what cannot be is an error of ours."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from virtuallog.contract.errors import (
    DiskFullError,
    InvalidSettingError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from virtuallog_loglets.archive.config import check_url, join
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles, absolute_url


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a directory that does not exist yet."""
    yield f"file://{tmp_path}/archives/one" if request.param == "file" else "memory://tests/archives/one"
    if request.param == "memory":
        fsspec.filesystem("memory").rm("/tests", recursive=True)


async def test_files_are_written_whole_and_read_in_parts(url: str) -> None:
    """A write by one client is read and listed by every other one at once."""
    files, others = FsspecFiles(url), FsspecFiles(url)
    assert await files.list() == {}
    assert await files.read("a") is None
    assert await files.read_range("a", 0, 5) is None

    assert await files.write("a", b"0123456789")
    assert await files.write("b", b"")
    assert await others.list() == {"a": 10, "b": 0}
    assert await others.read("a") == b"0123456789"
    assert await others.read_range("a", 3, 7) == b"3456"
    assert await others.read_range("a", 8, 20) == b"89"


async def test_a_file_stays_if_it_is_not_to_be_replaced(url: str) -> None:
    """The first of two manifests counts; a damaged file is replaced as a whole."""
    files = FsspecFiles(url)
    assert await files.write("manifest.json", b"first", replace=False)
    assert not await files.write("manifest.json", b"second", replace=False)
    assert await files.read("manifest.json") == b"first"
    assert await files.write("manifest.json", b"third")
    assert await files.read("manifest.json") == b"third"
    assert list(await files.list()) == ["manifest.json"]


async def test_a_file_may_be_deleted_twice(url: str) -> None:
    """A trim deletes what another one may have deleted."""
    files = FsspecFiles(url)
    await files.write("a", b"x")
    await files.delete("a")
    await files.delete("a")
    assert await files.list() == {}


async def test_on_a_disk_others_may_read_and_nothing_is_left_beside(tmp_path: Path) -> None:
    """Nodes run as other users; what a dead writer has left beside is not listed."""
    files = FsspecFiles(f"file://{tmp_path}/x")
    await files.write("a", b"x")
    await files.write("a", b"y", replace=False)
    (tmp_path / "x" / ".b-123").write_bytes(b"half")
    (tmp_path / "x" / "folder").mkdir()

    assert await files.list() == {"a": 1}
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == [".b-123", "a", "folder"]
    assert (tmp_path / "x" / "a").stat().st_mode & 0o444 == 0o444 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("bla://somewhere/x", InvalidSettingError),
        ("gs://bucket/x", UnsupportedError),
        ("file:///proc/there/is/no/such/place", StorageError),
        ("file:///dev/null/x", StorageError),
    ],
)
async def test_a_place_that_cannot_be_is_told_by_type(place: str, error: type[Exception]) -> None:
    """An unknown protocol, a library that is not installed, a directory that cannot be made."""
    with pytest.raises(error):
        await FsspecFiles(place).write("a", b"x")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (OSError(errno.ENOSPC, "no space left on device"), DiskFullError),
        (PermissionError(errno.EACCES, "permission denied"), StorageError),
        (ConnectionResetError("gone"), UnavailableError),
        (RuntimeError("slow down"), UnavailableError),
    ],
)
async def test_what_a_filesystem_raises_is_translated(raised: Exception, error: type[Exception]) -> None:
    """Object stores raise any error of their clients: then the outcome is unknown, and the same
    call may work later."""
    failing = FsspecFiles("memory://tests/failing")

    class Failing(type(fsspec.filesystem("memory"))):  # type: ignore[misc]
        protocol = "failing"

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: object) -> bytes:
            raise raised

    failing._directory._opened = (Failing(), "/x")
    with pytest.raises(error):
        await failing.read("a")


async def test_without_the_library_a_call_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec is loaded on first use: processes without archives do without it."""
    files = FsspecFiles("memory://tests/x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UnsupportedError, match=r"virtuallog\[archive\]"):
        await files.list()


@pytest.mark.parametrize("name", ["my archives", "ärger", "100%", "50%25", "a#b", "why?"])
async def test_a_path_is_the_directory_that_it_names(name: str, tmp_path: Path) -> None:
    """For any characters in it: hot copies are given up for files that must be where readers look for them."""
    files = FsspecFiles(join(absolute_url(str(tmp_path / name)), "directory"))
    await files.write("file", b"content")
    assert (tmp_path / name / "directory" / "file").read_bytes() == b"content"


@pytest.mark.parametrize(
    "url", ["file://", "file:///", "memory://", "s3://", "simplecache::s3://", "s3://bucket/x?secret=top"]
)
def test_a_url_of_no_place_or_with_a_secret_is_refused(url: str) -> None:
    """Before anything is written: the root of a filesystem, or a directory that depends on who looks; all could see the secret."""
    with pytest.raises(InvalidSettingError):
        check_url(url)

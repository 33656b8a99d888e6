"""Origin of a restored cluster, as it is written down."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.chain import genesis, validate
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_loglets.archive.config import ArchiveConfig, directory_of
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.restored_origin import (
    NAME,
    STARTED,
    Origin,
    claim_origin,
    decode_untrusted,
    read_origin,
)

CLUSTER = ClusterId(b"n" * 16)
URL = "file:///restored"


def archive(start: int, stop: int, cluster: bytes = CLUSTER) -> ArchiveConfig:
    return ArchiveConfig(
        url=f"{URL}/archives", directory=directory_of(cluster.hex(), start, stop), start=start, stop=stop,
        manifest=f"sha256:{start:064x}", cluster=cluster.hex(),
    )  # fmt: skip


ORIGIN = Origin(cluster=CLUSTER, position=LogPosition(50), history=(archive(7, 20), archive(20, 50)))


@pytest.mark.parametrize("origin", [ORIGIN, Origin(cluster=CLUSTER, position=LogPosition(4711))])
def test_it_reads_back_as_it_was_written(origin: Origin) -> None:
    """With and without a history; the directory may have been moved in between."""
    assert decode_untrusted(origin.encode(), URL) == origin
    moved = decode_untrusted(origin.encode(), "s3://bucket/elsewhere")
    assert [each.location for each in moved.history] == [
        f"s3://bucket/elsewhere/archives/{each.directory}" for each in origin.history
    ]


def test_its_history_begins_the_chain() -> None:
    """Closed segments of version 1, each with an id of its own, adjacent to the first open one."""
    history = ORIGIN.segments(random.Random(7))
    chain = genesis("native", b"", 1, start=ORIGIN.position, history=history)
    validate(chain)
    assert [(each.kind, each.start, each.stop) for each in chain.segments] == [
        ("archive", 7, 20), ("archive", 20, 50), ("native", 50, None),
    ]  # fmt: skip
    assert [each.offset(each.start) for each in history] == [7, 20], "offsets of archives are positions"


@pytest.mark.parametrize(
    "history",
    [(archive(0, 40),), (archive(0, 20), archive(30, 50)), (archive(0, 50, b"o" * 16),)],
    ids=["too short", "with a hole", "of another cluster"],
)
def test_a_history_that_is_not_whole_is_refused(history: tuple[ArchiveConfig, ...]) -> None:
    """Any such origin would break the chain, or is another cluster's."""
    with pytest.raises(MalformedError):
        Origin(cluster=CLUSTER, position=LogPosition(50), history=history)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "virtuallog-archive"}, {"version": 2}, {"version": True}, {"cluster": "ab"}, {"cluster": 7},
        {"position": -1}, {"position": "50"}, {"position": 51}, {"history": {}}, {"history": [7]}, {"history": None},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_origin_is_refused(change: dict[str, Any]) -> None:
    """Another format, a later version, fields of other types, a history that does not fit."""
    fields = {**json.loads(ORIGIN.encode()), **change}
    with pytest.raises(MalformedError):
        decode_untrusted(json.dumps(fields).encode(), URL)


@given(st.binary(max_size=40) | st.integers(0, len(ORIGIN.encode())).map(lambda cut: ORIGIN.encode()[:cut]))
def test_rubbish_is_refused(blob: bytes) -> None:
    """Half of a file, too."""
    if blob == ORIGIN.encode():
        return
    with pytest.raises(MalformedError):
        decode_untrusted(blob, URL)


def test_fields_of_later_programs_are_passed_over() -> None:
    """They are additions: what must not be passed over is a new version."""
    fields = {**json.loads(ORIGIN.encode()), "made_by": "somebody"}
    assert decode_untrusted(json.dumps(fields).encode(), URL) == ORIGIN


async def test_a_directory_without_one_is_told(tmp_path: Path) -> None:
    """A restore that was killed leaves everything but the last file."""
    url = f"file://{tmp_path}"
    (tmp_path / "archives").mkdir()
    with pytest.raises(InvalidSettingError, match="nothing was restored there, or not to the end"):
        await read_origin(FsspecFiles(url), url)
    (tmp_path / NAME).write_bytes(attrs.evolve(ORIGIN, history=()).encode())
    assert (await read_origin(FsspecFiles(url), url)).position == 50


async def test_one_restore_is_for_one_cluster(tmp_path: Path) -> None:
    """Each of its nodes says which cluster it is of, and again after a crash. Another cluster is
    refused, until an operator says that there is no other one."""
    url, stores = f"file://{tmp_path}", {NodeId(1): b"a" * 16, NodeId(2): b"b" * 16}
    for _ in range(2):
        await claim_origin(FsspecFiles(url), url, stores)
    await claim_origin(FsspecFiles(url), url, dict(reversed(stores.items())))
    with pytest.raises(InvalidSettingError, match=f"restore again for this one. If that never began, remove {STARTED}"):
        await claim_origin(FsspecFiles(url), url, {**stores, NodeId(2): b"c" * 16})
    await FsspecFiles(url).delete(STARTED)
    await claim_origin(FsspecFiles(url), url, {NodeId(1): b"c" * 16})

"""Contents of znodes and configs: written, read back, and rejected when impossible."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, ReconfigurationNeededError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.zookeeper import config as configs
from virtuallog_loglets.zookeeper.config import ZooKeeperConfig
from virtuallog_loglets.zookeeper.core import records
from virtuallog_loglets.zookeeper.core.records import ChunkManifest, TrimState, WriterState
from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider

NO_CLUSTER = Cluster(members=(), planner=NodeId(1))
SESSION = SessionId(bytes(range(16)))
WRITTEN = WriterState(next_sequence=12, placed=((3, 7), (5, None), (9, 8)), floor=4)


def batch(number: int) -> Batch:
    return Batch.build(SESSION, number, [b"x"])


def test_a_writer_remembers_where_its_bundles_are() -> None:
    """A batch within a bundle has the place that its number gives it."""
    assert records.decode_writer_untrusted(WRITTEN.encode()) == WRITTEN
    assert WRITTEN.place_of(batch(4)) == 7 * SLOT + 1
    assert WRITTEN.place_of(batch(11)) == 8 * SLOT + 2
    for number in (2, 5, 8):
        with pytest.raises(ReconfigurationNeededError):
            WRITTEN.place_of(batch(number))


def test_a_writer_remembers_so_many_and_no_more() -> None:
    """The oldest are forgotten first."""
    written = WriterState(next_sequence=0)
    for number in range(100):
        written = written.with_bundle(number, number + 1, 0).resolved(number)
    assert len(written.placed) == records.PLACED_MAX
    assert written.place_of(batch(99)) == 99 * SLOT


def test_the_formats_are_what_they_were() -> None:
    """They lie in ZooKeepers: byte for byte, version 1."""
    assert WRITTEN.encode().hex() == (
        "5a5701030c00000000000000" "04000000" "030000000000000007000000" "0500000000000000ffffffff" "090000000000000008000000"
    )  # fmt: skip
    manifest = ChunkManifest(session=SESSION, first_sequence=5, size=1_900_000, checksum=0x1F2E3D4C)
    assert manifest.encode().hex() == "5a4d010003000000e0fd1c004c3d2e1f0500000000000000" + SESSION.hex()
    assert manifest.names[2] == f"{SESSION.hex()}-5-1f2e3d4c-2"
    assert TrimState(trim=131072, deleted=2).encode() == b'{"deleted": 2, "trim": 131072}'


def test_manifests_and_trims_come_back() -> None:
    """Manifests and trims survive a round trip, and a batch does not decode as a manifest."""
    manifest = ChunkManifest.of(batch(1), bytes(2_000_000))
    assert records.decode_manifest_untrusted(manifest.encode()) == manifest
    assert records.decode_manifest_untrusted(batch(1).blob) is None
    assert records.decode_trim_untrusted(TrimState(trim=9 * SLOT, deleted=9).encode()) == TrimState(
        trim=9 * SLOT, deleted=9
    )


@given(st.binary(max_size=100))
def test_garbage_is_an_error(data: bytes) -> None:
    """Any bytes in a znode are read, or are a CorruptionError, and nothing else."""
    for decode in (records.decode_writer_untrusted, records.decode_manifest_untrusted, records.decode_trim_untrusted):
        for blob in (data, b"ZW\x01" + data, b"ZM\x01\x00" + data, b'{"trim": ' + data):
            with suppress(CorruptionError):
                decode(blob)


@pytest.mark.parametrize("data", [b'{"trim": 1}', b'{"trim": 5, "deleted": 1}', b'{"trim": true, "deleted": 0}', b"[]"])
def test_a_trim_point_that_cannot_be(data: bytes) -> None:
    """Deleted before it was trimmed, among others."""
    with pytest.raises(CorruptionError):
        records.decode_trim_untrusted(data)


# -- configs ----------------------------------------------------------------------------------------------------------------


def test_a_plan_keeps_what_is_not_set() -> None:
    """From the active segment, unknown fields included; without one, hosts must be named."""
    provider = ZooKeeperProvider()
    first = provider.plan(NO_CLUSTER, {"hosts": "a:2181,b:2181"}, None)
    assert provider.describe(first) == {"hosts": "a:2181,b:2181", "root": "/virtuallog"}
    later = b'{"hosts": "a:2181", "root": "/x", "new": 1}'
    assert provider.describe(provider.plan(NO_CLUSTER, {"root": "/y/z"}, later)) == {
        "hosts": "a:2181",
        "root": "/y/z",
        "new": 1,
    }
    with pytest.raises(InvalidSettingError, match="which ZooKeeper"):
        provider.plan(NO_CLUSTER, {}, None)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("hosts", "a"), ("hosts", "a:0"), ("hosts", ":2181"), ("hosts", "a:2181,"), ("hosts", "a:99999"), ("root", "x"),
        ("root", "/"), ("root", "/a/"), ("root", "/a//b"), ("root", "/a/../b"), ("root", "/zookeeper/x"), ("root", "/a b"),
        ("servers", "3"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(setting: str, value: str) -> None:
    """By name, before anything is sealed."""
    with pytest.raises(InvalidSettingError, match=setting):
        ZooKeeperProvider().plan(NO_CLUSTER, {"hosts": "a:2181", setting: value}, None)


@pytest.mark.parametrize("blob", [b"", b"{}", b"[]", b'{"hosts": 3, "root": "/a"}', b'{"hosts": "a:1", "root": "a"}'])
def test_another_config_is_malformed(blob: bytes) -> None:
    """A config of another kind, or of none."""
    with pytest.raises(MalformedError):
        configs.decode_untrusted(blob)
    assert configs.decode_untrusted(b'{"hosts": "a:1", "root": "/a"}') == ZooKeeperConfig(hosts="a:1", root="/a")

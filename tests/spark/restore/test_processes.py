"""A log and a database are restored from real nodes, and from what they have left, into new clusters of real nodes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import trio
from kazoo.client import KazooClient

from pyspark_virtuallog.restore.planner import RestoreRequest
from pyspark_virtuallog.restore.restoration import Restored, restore
from tests.free_ports import free_ports
from tests.loglets.archive.test_processes import archive, contents
from tests.server.database.test_processes import servers, wait_serving
from tests.server.process.test_processes import command
from tests.spark.restore.test_state import fetched
from tests.spark.restore.test_under_load import run_until
from virtuallog.connect import connect
from virtuallog.contract.errors import InvalidSettingError, StorageError, WrongRecipientError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import Gap, GapKind, LogPosition
from virtuallog_loglets.archive.restored_origin import NAME, Origin, decode_untrusted
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.long]


async def by_command(*arguments: str | Path) -> dict[str, Any]:
    done = await trio.to_thread.run_sync(lambda: command("spark", "restore", *arguments, "--json", timeout=300))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def restored(place: Path, into: Path, **more: Any) -> Restored:
    """From a place alone."""
    wanted = RestoreRequest(places=[f"file://{place}"], into=f"file://{into}", **more)
    return await restore(wanted, random.Random(7))


def origin_of(into: Path) -> Origin:
    return decode_untrusted((into / NAME).read_bytes(), f"file://{into}")


def with_kazoo(port: int, *made: str) -> list[str]:
    """Create these, and say what there is then."""
    client = KazooClient(f"127.0.0.1:{port}")
    client.start(timeout=60)
    try:
        for path in made:
            client.create(path, path.encode())
        client.sync("/")
        return sorted(name for name in client.get_children("/") if name != "zookeeper")
    finally:
        client.stop()
        client.close()


async def paths_in(into: Path, cluster: str) -> set[bytes]:
    """Paths of the znodes in a restored state."""
    return {key[1:] for key in await fetched(into, ClusterId(bytes.fromhex(cluster))) if key.startswith(b"n")}


async def test_a_database_is_restored_to_a_position_into_a_new_cluster(tmp_path: Path) -> None:
    """All that was written before is there, nothing of what came after; clients go on, and so do all three servers. The new cluster
    has another id, and its log begins where the restored one was cut. A server that knows of no restore is not let in."""
    port, into = free_ports(6), tmp_path / "restored"
    async with servers(tmp_path / "former", port) as cluster:
        await trio.to_thread.run_sync(with_kazoo, port, "/one", "/two")
        async with connect(cluster.file) as log:
            position = (await log.check_tail()).tail
            former = (await log.view.refresh()).cluster.hex()
        await trio.to_thread.run_sync(with_kazoo, port, "/three")
        made = await by_command("--from", cluster.file_path, "--position", str(position), "--into", into)
    assert (made["former"], made["position"], made["history"]) == (former, position, None)

    origin = made["into"]
    async with open_local_cluster(tmp_path / "new", 3, base_port=0, zookeeper_port=port, origin=origin) as cluster:
        await wait_serving(cluster)
        assert await trio.to_thread.run_sync(with_kazoo, port) == ["one", "two"]
        assert await trio.to_thread.run_sync(with_kazoo, port + 1, "/four") == ["four", "one", "two"]
        assert await trio.to_thread.run_sync(with_kazoo, port + 2) == ["four", "one", "two"]
        async with connect(cluster.file) as log:
            register = await log.view.refresh()
            assert register.cluster.hex() == made["cluster"] != former
            assert register.chain.start == position
        cluster.write_file()
        again = await by_command("--from", cluster.file_path, "--from", origin, "--into", tmp_path / "again")
        assert (again["former"], again["position"] > position) == (made["cluster"], True)
        assert await paths_in(tmp_path / "again", again["cluster"]) >= {b"/one", b"/two", b"/four"}
        with pytest.raises(StorageError, match="is that of another cluster"):
            async with open_local_cluster(tmp_path / "second", 3, base_port=0, origin=origin) as second:
                await second.wait_ready()


async def test_a_log_is_restored_from_archives_alone(tmp_path: Path) -> None:
    """The cluster is gone; two of its segments are left as files, the second one is cut in the middle of a batch. In the new cluster
    the same entries are at the same positions, and it goes on behind them. So it is if Spark's driver is killed in the middle. A range that no
    archive has is refused by name, and nothing is left behind that a cluster would take."""
    payloads, place, into = [b"entry %d" % number for number in range(900)], tmp_path / "place", tmp_path / "restored"
    async with open_local_cluster(tmp_path / "former", 1, base_port=0) as cluster:
        await cluster.wait_ready()
        cluster.write_file()
        async with connect(cluster.file) as log:
            for start in range(0, 900, 300):
                await log.append_many(payloads[start : start + 300])
                await log.reconfig_extend("native")
            await archive(cluster.file_path, "all", "--to", str(place))
        with pytest.raises(WrongRecipientError):
            await restored(place, into, cluster_id=b"x" * 16)

    with pytest.raises(InvalidSettingError, match="901 is not within what was found, which ends at 900"):
        await restored(place, into, position=LogPosition(901))
    assert not into.exists()
    made = await restored(place, into, position=LogPosition(456))
    assert made.history is not None and made.history.verified.entries == 456
    assert made == await restored(place, into, position=LogPosition(456)), "the same again changes nothing"
    with pytest.raises(InvalidSettingError, match="another restore"):
        await restored(place, into, position=LogPosition(457))

    killed = tmp_path / "killed"
    given: list[str | Path] = ["--from", place, "--position", "456", "--into", killed, "--master", "local[1]"]
    command_line = ["spark", "restore", *map(str, given)]
    await trio.to_thread.run_sync(run_until, command_line, killed / "archives" / "*" / "*.parquet", tmp_path)
    again = await by_command(*given)
    assert (again["position"], again["history"]) == (456, {"start": 0, "entries": 456})
    assert origin_of(killed).history[0].stop == 456

    origin = f"file://{into}"
    async with open_local_cluster(tmp_path / "new", 1, base_port=0, origin=origin) as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file, expected_cluster=made.origin.cluster) as log:
            assert await log.append(b"new") == 456
            assert await contents(log) == [*payloads[:456], b"new"]
            assert await log.prefix_trim(LogPosition(456)) == 456
            assert (await log.read(LogPosition(0), LogPosition(457)))[0] == Gap(
                LogPosition(0), LogPosition(456), GapKind.TRIMMED
            )
    assert len(list(place.rglob("*.parquet"))) == 3, "the archives of the former cluster are not touched"

    (second,) = place.glob("*-00000000000000000300-*")
    (second / "manifest.json").unlink()  # as of a process that was killed before it had written it
    with pytest.raises(InvalidSettingError, match="has positions 300 to 599; from 600 on all is there"):
        await restored(place, tmp_path / "other", time_ms=1 << 42)
    with pytest.raises(InvalidSettingError, match="all that was found, from 600 on, is later"):
        await restored(place, tmp_path / "other", time_ms=0)

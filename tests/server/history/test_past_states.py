"""States of the past: from any mixture of snapshots, and with servers that are down."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import attrs
import pytest

from tests.database.history.drawn_log import DrawnLog
from tests.server.backup.places import MemoryPlace
from tests.server.backup.saved_states import saved_state
from tests.server.history.past_bench import past_bench
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_database.errors import NoPastStateError
from virtuallog_database.tree.commands import Create, SetData
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.saved_log import LogPart
from virtuallog_server.history.past_log import Moment
from virtuallog_server.history.past_states import _size_of


def written(log: DrawnLog, count: int) -> None:
    """`/a` has the number of the entry before as its data."""
    log.do(Create("/a", b"0"))
    for number in range(1, count):
        log.do(SetData("/a", b"%d" % number))


async def test_a_snapshot_whose_content_is_newer_is_not_shown_as_an_earlier_state(tmp_path: Path) -> None:
    """A server goes on while it takes a snapshot at 4, which then has the entries below 7. A question about 5 is answered from the beginning of
    the log."""
    async with past_bench(tmp_path) as bench:
        written(bench.log, 10)
        await (await bench.server()).take(bench.log, 4, content=7)

        found = [await bench.past().znode("/a", Moment(position=at), bytes_max=9) for at in range(1, 11)]

        assert [each.value.data for each in found] == [b"%d" % number for number in range(10)]


async def test_a_node_that_is_down_is_not_needed_if_the_log_has_its_beginning(tmp_path: Path) -> None:
    """Its snapshots may be nearer, but all can be played; nor is it needed if another server has a snapshot that is old enough."""
    async with past_bench(tmp_path) as bench:
        written(bench.log, 6)
        await (await bench.server()).take(bench.log, 4)
        bench.down.add(NodeId(2))

        found = [await bench.past().znode("/a", Moment(position=at), bytes_max=9) for at in (2, 5)]

        assert [each.value.data for each in found] == [b"1", b"4"]


async def test_a_node_that_is_down_may_have_what_is_needed(tmp_path: Path) -> None:
    """Behind the trim point, where the others have no snapshot: it may be asked again later. Once it has answered that it has none, asking again
    does not help."""
    async with past_bench(tmp_path) as bench:
        written(bench.log, 6)
        await (await bench.server()).take(bench.log, 4)
        bench.down.add(NodeId(2))
        bench.trim_point = 1

        with pytest.raises(UnavailableError, match="node 2 is down"):
            await bench.past().znode("/a", Moment(position=2), bytes_max=9)
        bench.down.clear()
        with pytest.raises(NoPastStateError, match="no snapshot from there on"):
            await bench.past().znode("/a", Moment(position=2), bytes_max=9)


async def test_the_oldest_state_is_that_of_a_snapshot_or_of_a_backup(tmp_path: Path) -> None:
    """The one that reaches further back. A full backup may have been made behind a snapshot that is still kept."""
    async with past_bench(tmp_path) as bench:
        written(bench.log, 12)
        server = await bench.server()
        for position in (3, 6, 9):
            await server.take(bench.log, position)
        bench.trim_point = 2
        place = MemoryPlace()

        async def start(*backups: BackupManifest) -> int:
            past = bench.past(backups, open_files=place)
            return (await past.changes("/a", None, Moment(position=12), limit=1, bytes_max=9)).start

        saved = await saved_state(place, tmp_path, bench.log, 5)
        assert await start() == await start(saved) == 3
        await bench.server(2)
        bench.down.add(NodeId(1))
        assert await start(saved) == 5


@pytest.mark.parametrize("seed", range(12))
async def test_every_answer_is_that_of_a_replay(tmp_path: Path, seed: int) -> None:
    """Two servers with snapshots anywhere, whose content may be newer, one of them down at times, and a log that is trimmed anywhere: a state is right or
    refused, and refused only if the log has been trimmed. Nothing is left of a question."""
    chance, refused = random.Random(seed), list[bool]()
    async with past_bench(tmp_path) as bench:
        written(bench.log, 30)
        for number in (1, 2):
            server, at = await bench.server(number), 0
            for _ in range(chance.randrange(4)):
                at = chance.randrange(at, 29) + 1
                content = min(30, at + chance.choice((0, 0, 3)))
                await server.take(bench.log, at, content)
                at = content
                if at >= 29:
                    break
        bench.trim_point = chance.choice((0, 0, chance.randrange(30)))
        for _ in range(6):
            bench.down = {NodeId(chance.choice((1, 2)))} if chance.random() < 0.3 else set()
            position = chance.randrange(1, 31)
            try:
                found = await bench.past().znode("/a", Moment(position=position), bytes_max=9)
            except NoPastStateError:
                refused.append(bench.trim_point > 0)
            except UnavailableError:
                refused.append(bench.trim_point > 0 and bool(bench.down))
            else:
                assert (found.position, found.value.data) == (position, b"%d" % (position - 1))
        assert (
            all(refused)
            and not list((tmp_path / "scratch").iterdir())
            and not any("history" in name for name in bench.holds)
        )


async def test_large_values_end_an_answer(tmp_path: Path) -> None:
    """Before it has more than its bound; the rest is in the next answers. The last changes are fewer then."""
    async with past_bench(tmp_path) as bench:
        await bench.server()
        count, size = 9, 1000
        bench.log.do(Create("/v", b""))
        for number in range(count):
            bench.log.do(Create(f"/v/{number}", bytes(size)))
        past, stop = bench.past(answer_bytes=4000), Moment(position=count + 1)

        changes = await past.changes("/v", Moment(position=1), stop, limit=100, bytes_max=size)
        last = await past.changes("/v", Moment(position=1), stop, limit=100, bytes_max=size, only_last=True)
        differences = await past.differences("/v", Moment(position=1), stop, after="", limit=100, bytes_max=size)

        assert [each.path for each in changes.changes] == [f"/v/{number}" for number in range(4)]
        assert changes.more_from == 5
        assert [each.path for each in last.changes] == ["/v/6", "/v/7", "/v/8"] and last.dropped == 6
        assert [each.path for each in differences.differences] == [f"/v/{number}" for number in range(4)]
        assert differences.more_after == "/v/3"


def test_files_may_go_while_they_are_counted(tmp_path: Path) -> None:
    """The store merges its files: one that is gone when its size is asked for counts nothing."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "stays").write_bytes(bytes(100))
    is_over = threading.Event()

    def merges() -> None:
        while not is_over.is_set():
            for number in range(20):
                (tmp_path / "store" / f"{number}").touch()
            for number in range(20):
                (tmp_path / "store" / f"{number}").unlink()

    thread = threading.Thread(target=merges)
    thread.start()
    try:
        assert {_size_of(tmp_path) for _ in range(2000)} == {100}
    finally:
        is_over.set()
        thread.join()


async def test_a_backup_without_a_state_is_the_start_of_none(tmp_path: Path) -> None:
    """It was made before a database was put on the log, which had been trimmed already: its entries can be read, but no state begins with it."""
    async with past_bench(tmp_path) as bench:
        written(bench.log, 9)
        await (await bench.server()).take(bench.log, 5)
        bench.trim_point = 5
        only_log = attrs.evolve(
            await saved_state(MemoryPlace(), tmp_path, bench.log, 2), database=False, state=None, digests={}
        )
        past = bench.past([only_log], [LogPart(2, 6, bench.log)])

        assert (await past.znode("/a", Moment(position=7), bytes_max=9)).value.data == b"6"
        assert (await past.changes("/a", None, Moment(position=8), limit=9, bytes_max=9)).start == 5
        with pytest.raises(NoPastStateError, match="no snapshot from there on"):
            await past.znode("/a", Moment(position=4), bytes_max=9)

"""Loglets that leave the chain while older ones stay: dropped for ever, and nothing of each is kept."""

from __future__ import annotations

from tests.loglets.native.core.log_server_bench import SEGMENT, Server, state_of, wave_of
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import DiskFullError, SealedError
from virtuallog_loglets.native.core.durable_state import decode_untrusted, encode
from virtuallog_loglets.native.messages import NativeSeal
from virtuallog_loglets.tombstones import LiveLogletSet, Tombstones
from virtuallog_loglets.wal import Address

OLD, NEW = SegmentId(1, 11), SegmentId(8, 88)


def held() -> Server:
    """SEGMENT, of version 3, between two others."""
    server = Server()
    for segment in (OLD, SEGMENT, NEW):
        server.store(wave_of(0, 2, segment=segment))
    return server


def sweep_loglets(server: Server, horizon: int, *live: SegmentId) -> object:
    server.answers.pop("forget", "")
    server.run(server.core.sweep_loglets(horizon, live, "forget"))
    return server.answers.get("forget", "waits")


def test_what_the_chain_does_not_name_is_gone_also_after_a_restart() -> None:
    """A late seal or store does not make it again; the others, and newer ones, are untouched."""
    server = held()
    assert sweep_loglets(server, 7, OLD) == "waits"
    server.sync()
    assert server.answers["forget"] is None

    for life in range(2):
        assert isinstance(server.ask(f"late {life}", NativeSeal(segment=SEGMENT)), SealedError)
        assert isinstance(server.store(wave_of(2, segment=SEGMENT)), SealedError)
        assert server.core.state(OLD) == server.core.state(NEW) == state_of(2)
        assert sorted(server.core.durable.loglets) == [OLD, NEW]
        server.restart()


def test_ten_thousand_loglets_leave_nothing_behind() -> None:
    """Each leaves the chain with the change that closes it. What a new WAL segment begins with stays small."""
    server = held()
    for version in range(10, 20_010, 2):
        server.ask(f"seal {version}", NativeSeal(segment=SegmentId(version, version)))
        sweep_loglets(server, version + 1, OLD, NEW)
        server.sync()

    snapshot = server.core.durable.snapshot()
    assert len(snapshot) == 4
    assert sum(len(record.payload) for record in snapshot) < 200
    assert server.core.durable.tombstones == Tombstones(0, 20_009, frozenset({OLD, NEW}))


def test_nothing_is_written_for_loglets_that_were_never_here() -> None:
    """Every change of the chain comes by; most drop nothing."""
    server = held()
    written = len(server.written)

    assert sweep_loglets(server, 7, OLD, SEGMENT) is None
    assert len(server.written) == written


def test_a_chain_that_is_older_says_nothing() -> None:
    """Two callers may overtake each other."""
    server = held()
    sweep_loglets(server, 7, OLD)
    server.sync()

    assert sweep_loglets(server, 5, SEGMENT) is None
    assert server.core.durable.tombstones.is_dropped(SEGMENT)


def test_a_full_disk_leaves_it_undone() -> None:
    """A drop that was not written is not in force either."""
    server = held()
    sweep_loglets(server, 7, OLD)
    write = server.queue.popleft()
    server.run(server.core.failed(write, DiskFullError("full")))

    assert isinstance(server.answers["forget"], DiskFullError)
    assert server.core.state(SEGMENT) == state_of(2)
    assert server.store(wave_of(2, segment=SEGMENT)).accepted


def test_a_refusal_takes_nothing_back_that_others_wait_for() -> None:
    """Two floors on their way to the disk, of which it takes the first: that one is in force all the while, and afterwards."""
    server = held()
    server.run(server.core.forget(4, "first"))
    server.run(server.core.forget(9, "second"))
    server.run(server.core.failed(server.queue.pop(), DiskFullError("full")))

    for ticket in ("late", "later"):
        assert isinstance(server.ask(ticket, NativeSeal(segment=SEGMENT), sync=False), SealedError)
        server.sync()
    assert isinstance(server.answers["second"], DiskFullError)
    assert server.core.durable.tombstones == Tombstones(4)
    assert server.core.state(NEW) == state_of(2)


def test_the_floor_takes_from_the_living() -> None:
    """Loglets below the floor need not be named."""
    tombstones = Tombstones().seen(9, [OLD, SEGMENT, NEW]).raised(3)

    assert tombstones.live == {SEGMENT, NEW}
    assert [tombstones.is_dropped(s) for s in (OLD, SEGMENT, SegmentId(4, 4), NEW, SegmentId(10, 1))] == [
        True, False, True, False, False,
    ]  # fmt: skip
    assert tombstones.seen(12, [OLD, SEGMENT]).live == {SEGMENT}


def test_the_record_of_the_living() -> None:
    """Kind 7, read back as it was written; a snapshot repeats it only if there is one."""
    for live in (LiveLogletSet(7, ()), LiveLogletSet(2**63, (OLD, NEW))):
        assert decode_untrusted(encode(live)) == live
        assert encode(live).kind == 7
    server = Server()
    assert [record.kind for record in server.core.durable.snapshot()] == [6]
    server.core.durable.apply(LiveLogletSet(7, (OLD,)), Address(1 << 32 | 64))
    assert [record.kind for record in server.core.durable.snapshot()] == [6, 7]

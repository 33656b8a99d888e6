"""Three servers of ZooKeeper's clients as real processes under attack, with well-behaved clients beside it: one that pings each server,
and one that writes.

Servers must live, answer pings in time, and be no larger afterwards than their stored data explain; the acknowledged writes are there.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from tests.hostile import recorded_node
from tests.hostile.event_loop_stalls import Readiness, Turn, read_turns
from tests.hostile.zookeeper_attacker import HOST, KINDS, LARGE, LARGE_BYTES, Target, attack
from tests.interop.cluster import SIZE, ParityCluster
from virtuallog_database.tree.commands import OPEN_ACL
from virtuallog_simulation.workload.database.jute import Reader, Writer

PING_SECONDS: Final = 0.01
STOPS_MS: Final = 200.0
"""Longest stop of a server by its own doing, measured by a ping from outside or by the turns of its event loop."""
GROWTH_MIB: Final = 96
"""Growth of a server, from before an attack to some seconds after it: records in RocksDB's memory, and memory kept by Python."""
REST_SECONDS: Final = 3.0
_MIB: Final = 1 << 20
NO_TURN: Final = Turn(ended=0.0, took_ms=0.0, machine_ms=0.0, worked_ms=0.0, step="", step_ms=0.0)


@attrs.frozen(kw_only=True)
class Phase:
    """Observations during one attack."""

    attack: str
    seconds: float
    pings: int
    p50_ms: float
    p99_ms: float
    slowest_ms: float
    """Slowest ping, at any server."""
    own_ms: float
    """The most that a server itself took of one ping: without the time in which it or the observer was ready to run and the machine ran
    other processes.
    """
    turn: Turn
    """The turn of any server's event loop with the most work of its own."""
    written: int
    """Writes of the honest writer."""
    rss_mib: Mapping[int, tuple[int, int, int]]
    """MiB of each server: before, at most, after."""
    seen: Mapping[str, int]
    """Counts of the attackers."""

    def problems(self) -> list[str]:
        found = []
        if self.own_ms > STOPS_MS:
            found.append(f"{self.attack}: a server let a ping wait for {self.own_ms:.0f} ms")
        if self.turn.own_ms > STOPS_MS:
            found.append(f"{self.attack}: a turn took {self.turn.own_ms:.0f} ms, most of it {self.turn.step}")
        grown = {
            node: after - before for node, (before, _, after) in self.rss_mib.items() if after - before > GROWTH_MIB
        }
        return [*found, *(f"{self.attack}: server {node} grew by {size} MiB" for node, size in grown.items())]

    def row(self) -> str:
        """A row of the table."""
        largest = max(most for _, most, _ in self.rss_mib.values())
        before, after = (max(sizes[at] for sizes in self.rss_mib.values()) for at in (0, 2))
        asked = self.seen.get("requests", 0) or self.seen.get("silent", 0) or self.seen.get("connections", 0)
        figures = (
            f"{self.p50_ms:.1f}",
            f"{self.p99_ms:.1f}",
            f"{self.slowest_ms:.0f}",
            f"{self.own_ms:.0f}",
            f"{self.turn.own_ms:.0f}",
        )
        return (
            f"| {self.attack} | {asked:,} | {' | '.join(figures)} | {self.written} | {before} / {largest} / {after} |"
        )


HEADER: Final = """\
| attack | requests, or connections | ping p50 ms | p99 | slowest | server's own | turn | written | MiB before / most / after |
|---|---|---|---|---|---|---|---|---|"""


class HonestClient:
    """One connection that behaves."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream, self._received, self._xid = stream, bytearray(), 0

    @classmethod
    async def connect(cls, port: int) -> HonestClient:
        client = cls(await trio.open_tcp_stream(HOST, port))
        greeting = Writer().int32(0).int64(0).int32(30_000).int64(0).buffer(bytes(16)).flag(False)
        await client._stream.send_all(greeting.frame())
        await client._frame()
        return client

    def close(self) -> None:
        self._stream.socket.close()

    async def ask(self, opcode: int, body: Writer | None = None) -> int:
        """Send a request; return the error of the answer."""
        self._xid += 1
        writer = Writer().int32(self._xid).int32(opcode)
        writer.content += (body or Writer()).content
        await self._stream.send_all(writer.frame())
        reader = Reader(await self._frame())
        xid, _, error = reader.int32(), reader.int64(), reader.int32()
        assert xid == self._xid
        return error

    async def create(self, path: str, data: bytes = b"") -> int:
        return await self.ask(1, Writer().string(path).buffer(data).acl(OPEN_ACL).int32(0))

    async def _frame(self) -> bytes:
        received = self._received
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            piece = await self._stream.receive_some(1 << 16)
            assert piece, "an honest client's connection was closed"
            received += piece
        end = 4 + int.from_bytes(received[:4], "big")
        frame = bytes(received[4:end])
        del received[:end]
        return frame


@attrs.define(eq=False)
class ZooKeeperSiege:
    """Servers under siege. Use `besiege_zookeeper`."""

    cluster: ParityCluster
    _pids: Mapping[int, int]
    _written: list[str] = attrs.field(factory=list)

    async def prepare(self) -> None:
        """Make the large parent, a small one, and a quota."""
        client = await HonestClient.connect(self.cluster.client_port(1))
        for path, data in (
            ("/siege", b""), (LARGE, b"x" * LARGE_BYTES), ("/siege/small", b""), ("/honest", b""),
            ("/zookeeper/quota/siege", b""), ("/zookeeper/quota/siege/zookeeper_limits", b"count=1000000,bytes=-1"),
            ("/zookeeper/quota/siege/zookeeper_stats", b"count=0,bytes=0"),
        ):  # fmt: skip
            await client.create(path, data)
        client.close()

    async def attack(
        self, kind: str, seconds: float, seed: int = 1, rest_seconds: float = REST_SECONDS, *, here: bool = False
    ) -> Phase:
        """Start attackers, in a process of their own or in this one. Empty for no attack, to compare with."""
        before, most = self._rss(), self._rss()
        took, own, written, seen = list[float](), [0.0], len(self._written), dict[str, int]()
        honest: list[HonestClient] = []
        began, began_at = trio.current_time(), time.monotonic()  # noqa: TID251 -- against real processes
        async with trio.open_nursery() as watching:
            for node in range(1, SIZE + 1):
                pinger = await HonestClient.connect(self.cluster.client_port(node))
                honest.append(pinger)
                watching.start_soon(self._ping, pinger, self._pids[node], took, own)
            writer = await HonestClient.connect(self.cluster.client_port(2))
            honest.append(writer)
            watching.start_soon(self._write, writer, f"{kind or 'nothing'}-{seed}-{len(self._written)}")
            watching.start_soon(self._watch, most)
            targets = [Target(self.cluster.port(node, 1), self.cluster.port(node, 2)) for node in range(1, SIZE + 1)]
            if kind and here:
                seen = dict(await attack(kind, seconds, seed, targets))
            elif kind:
                ports = [f"{target.client}:{target.tls}" for target in targets]
                command = [
                    sys.executable,
                    "-m",
                    "tests.hostile.zookeeper_attacker",
                    kind,
                    str(seconds),
                    str(seed),
                    *ports,
                ]
                seen = json.loads((await trio.run_process(command, capture_stdout=True)).stdout)
            else:
                await trio.sleep(seconds)  # noqa: TID251 -- the same
            watching.cancel_scope.cancel()
        for client in honest:
            client.close()
        took.sort()
        lasted = trio.current_time() - began  # noqa: TID251 -- the same
        await trio.sleep(rest_seconds)  # noqa: TID251 -- the same
        after = self._rss()
        return Phase(
            attack=kind or "nothing",
            seconds=round(lasted, 1),
            pings=len(took),
            p50_ms=1000 * statistics.median(took),
            p99_ms=1000 * took[int(len(took) * 0.99)],
            slowest_ms=1000 * took[-1],
            own_ms=1000 * own[0],
            turn=max(self._turns(began_at), key=lambda turn: turn.own_ms, default=NO_TURN),
            written=len(self._written) - written,
            rss_mib={node: (before[node], most[node], after[node]) for node in before},
            seen=seen,
        )

    async def check(self) -> list[str]:
        """Faults at the end: a server that is another process, or a write that is missing."""
        wrong = [f"server {node} has ended" for node, pid in self._pids.items() if self.cluster.pid(node) != pid]
        client = await HonestClient.connect(self.cluster.client_port(SIZE))
        await client.ask(9, Writer().string("/"))
        wrong += [path for path in self._written if await client.ask(3, Writer().string(path).flag(False))]
        client.close()
        return wrong

    async def _ping(self, client: HonestClient, pid: int, took: list[float], own: list[float]) -> None:
        with closing(Readiness(pid)) as server, closing(Readiness(os.getpid())) as observer:
            while True:
                asked, ready = trio.current_time(), server.seconds() + observer.seconds()  # noqa: TID251 -- against real processes
                await client.ask(11)
                took.append(trio.current_time() - asked)  # noqa: TID251 -- the same
                own[0] = max(own[0], took[-1] - (server.seconds() + observer.seconds() - ready))
                await trio.sleep(PING_SECONDS)  # noqa: TID251 -- the same

    async def _write(self, client: HonestClient, prefix: str) -> None:
        number = 0
        while True:
            path = f"/honest/{prefix}-{number}"
            assert await client.create(path) == 0
            self._written.append(path)
            number += 1
            await trio.sleep(0.05)  # noqa: TID251 -- the same

    async def _watch(self, most: dict[int, int]) -> None:
        while True:
            for node, size in self._rss().items():
                most[node] = max(most[node], size)
            await trio.sleep(0.2)  # noqa: TID251 -- the same

    def _turns(self, since: float) -> list[Turn]:
        return [
            turn
            for node in self._pids
            for turn in read_turns(self.cluster.folder / str(node) / recorded_node.STOPS, since)
        ]

    def _rss(self) -> dict[int, int]:
        """MiB of each server. One that has ended has none, which is an error here."""
        return {
            node: int(Path(f"/proc/{self.cluster.pid(node)}/statm").read_text().split()[1]) * 4096 // _MIB
            for node in self._pids
        }


@contextmanager
def besieged(folder: Path) -> Iterator[ZooKeeperSiege]:
    """New servers in `folder`."""
    cluster = ParityCluster(folder, Path(recorded_node.__file__))
    cluster.certify()
    try:
        cluster.start(*range(1, SIZE + 1))
        yield ZooKeeperSiege(cluster, {node: cluster.pid(node) for node in range(1, SIZE + 1)})
    finally:
        cluster.close()


async def run_siege(
    siege: ZooKeeperSiege, kinds: Sequence[str], seconds: float, seed: int, told: Any = print
) -> list[str]:
    """Run every attack, between two phases without any; report rows of a table. Return the faults."""
    await siege.prepare()
    told(HEADER)
    problems = []
    for kind in ("", *kinds, ""):
        phase = await siege.attack(kind, seconds, seed)
        told(phase.row())
        problems += phase.problems()
    return problems + await siege.check()


ALL_KINDS: Final = tuple(KINDS)

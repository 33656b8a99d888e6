"""Simulated TCP under `virtuallog.rpc`, for simulator runs that test the whole RPC stack.

It uses the same links as simulated calls do, so faults of a link affect the streams over it. A
segment that a link loses, doubles or lets overtake never shows in a stream (`tcp_segments.py`);
`tcp_connection.py` has the faults that break a stream.

    connect     takes a round trip; refused where a machine lives without a listener, unanswered
    where none lives
    listen      streams of connections; the kernel accepts them also while the process is paused
    end         a process has died: its kernel closes its open connections, or the machine forgets
        them with its power

A paused process reads and writes nothing. Bytes that arrive meanwhile wait in its buffers.
"""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio
from trio.lowlevel import ParkingLot

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_connection import SimulatedConnection, ends_of
from virtuallog.testing.sim.tcp_segments import StreamQuality
from virtuallog.testing.sim.tcp_stream import SimulatedStream
from virtuallog.testing.sim.timeline import Timer

__all__ = ["SimulatedTcpNetwork", "SimulatedConnection", "SimulatedListener", "SimulatedStream", "StreamQuality"]

BACKLOG: Final = 128
"""Connections that wait to be accepted. Further ones are ignored until there is room."""
CONNECT_RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Pauses between attempts to connect, as in Linux; then the attempt has timed out."""


@attrs.define(eq=False)
class SimulatedListener(trio.abc.Listener[SimulatedStream]):
    """The result of `SimulatedTcpNetwork.listen`."""

    process: Process
    address: str
    _backlog: deque[SimulatedStream] = attrs.field(factory=deque, init=False)
    _arrived: ParkingLot = attrs.field(factory=ParkingLot, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    @property
    def is_open(self) -> bool:
        return not self._is_closed and self.process.alive

    @property
    def has_room(self) -> bool:
        return len(self._backlog) < BACKLOG

    def put(self, stream: SimulatedStream) -> None:
        """Queue an incoming connection."""
        self._backlog.append(stream)
        self._arrived.unpark_all()

    async def accept(self) -> SimulatedStream:
        await trio.lowlevel.checkpoint()
        while True:
            await self.process.wait_running()
            if self._is_closed:
                raise trio.ClosedResourceError
            if self._backlog:
                return self._backlog.popleft()
            await self._arrived.park()

    async def aclose(self) -> None:
        """Close without waiting. Connections that were not accepted see a reset."""
        self._is_closed = True
        self._arrived.unpark_all()
        for stream in self._backlog:
            stream.close()
        self._backlog.clear()
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class _Attempt:
    """An attempt to connect."""

    process: Process
    target: NodeId
    address: str
    connection: SimulatedConnection | None = None
    """The connection, once the other machine knows of it; None before."""
    is_abandoned: bool = False
    outcome: SimulatedStream | OSError | None = None
    settled: trio.Event = attrs.field(factory=trio.Event)
    retry: Timer | None = None

    def settle(self, outcome: SimulatedStream | OSError) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.settled.set()


@attrs.define(eq=False)
class SimulatedTcpNetwork:
    """All listeners and connections. Draws everything from one seeded source."""

    network: SimulatedNetwork
    random: random.Random
    locate: Callable[[str], NodeId]
    """Returns the machine with this address."""
    quality: StreamQuality = attrs.field(factory=StreamQuality)
    """Quality of connections that are made from now on."""
    _connections: dict[int, SimulatedConnection] = attrs.field(factory=dict, init=False)
    _made: int = attrs.field(default=0, init=False)
    _listeners: dict[str, SimulatedListener] = attrs.field(factory=dict, init=False)
    _down: set[NodeId] = attrs.field(factory=set, init=False)
    """Machines without power."""
    _fenced: set[NodeId] = attrs.field(factory=set, init=False)
    """Machines that reach no other."""

    @property
    def connections(self) -> Sequence[SimulatedConnection]:
        """Connections with an end that still believes in them, the oldest first."""
        return list(self._connections.values())

    def listen(self, process: Process, address: str) -> SimulatedListener:
        """Listen at the address, which must be one of the process's machine.

        Raises:
            OSError: it is in use.
        """
        process.check()
        known = self._listeners.get(address)
        if known is not None and known.is_open:
            raise OSError(errno.EADDRINUSE, f"{address} is in use")
        listener = self._listeners[address] = SimulatedListener(process, address)
        return listener

    async def connect(self, process: Process, address: str) -> SimulatedStream:
        """Connect as `virtuallog.rpc.transport.Connect` does, for this process.

        Raises:
            OSError: the other machine refused, or did not answer for long.
        """
        await process.wait_running()
        attempt = _Attempt(process, self.locate(address), address)
        self._knock(attempt, 0)
        try:
            await attempt.settled.wait()
            await process.wait_running()
        except BaseException:
            attempt.is_abandoned = True
            raise
        finally:
            if attempt.retry is not None:
                attempt.retry.cancel()
            if attempt.connection is not None and (attempt.is_abandoned or isinstance(attempt.outcome, OSError)):
                attempt.connection.abandon(attempt.connection.ends[0])
        assert attempt.outcome is not None
        if isinstance(attempt.outcome, OSError):
            raise attempt.outcome
        return attempt.outcome

    def end(self, process: Process, *, power: bool) -> None:
        """End the connections of a dead process. With `power`, its machine has no power from now on
        until `start`."""
        if power:
            self._down.add(process.node)
        for end in ends_of(process, self.connections):
            if power:
                end.lose_power()
            else:
                end.close()

    def start(self, node: NodeId) -> None:
        """Give the machine power again."""
        self._down.discard(node)

    def fence(self, node: NodeId) -> None:
        """Fence a machine: others reach it, and it reaches none, as behind a firewall that lets no
        connection out."""
        self._fenced.add(node)
        for connection in self.connections:
            if connection.ends[0].process.node == node:
                connection.vanish()

    # -- connecting ---------------------------------------------------------------------------------------------

    def _knock(self, attempt: _Attempt, number: int) -> None:
        timeline = self.network.timeline
        if number == len(CONNECT_RETRY_SECONDS):
            attempt.settle(TimeoutError(errno.ETIMEDOUT, f"{attempt.address} does not answer"))
            return
        attempt.retry = timeline.schedule(CONNECT_RETRY_SECONDS[number], lambda: self._knock(attempt, number + 1))
        if attempt.process.node in self._fenced:
            self._note("connect fenced", attempt.process.node, attempt.target)
        else:
            self._send("connect", attempt.process.node, attempt.target, lambda: self._on_knock(attempt))

    def _on_knock(self, attempt: _Attempt) -> None:
        """Handle an attempt that has reached its machine."""
        source, target = attempt.process.node, attempt.target
        listener = self._listeners.get(attempt.address)
        if target in self._down:
            self._note("connect unanswered", source, target)
        elif listener is None or not listener.is_open:
            self._note("connect refused", source, target)
            self._send("refusal", target, source, lambda: attempt.settle(_refusal(attempt.address)))
        elif attempt.connection is not None or listener.has_room:
            if attempt.connection is None:
                attempt.connection = self._make(attempt, listener)
            self._send("connected", target, source, lambda: self._on_connected(attempt))

    def _make(self, attempt: _Attempt, listener: SimulatedListener) -> SimulatedConnection:
        self._made += 1
        connection = self._connections[self._made] = SimulatedConnection.between(
            self._made, (attempt.process, listener.process), self.network, self.random, self.quality,
            is_down=self._down.__contains__, on_over=self._forget,
        )  # fmt: skip
        listener.put(connection.ends[1])
        return connection

    def _on_connected(self, attempt: _Attempt) -> None:
        assert attempt.connection is not None
        ours, theirs = attempt.connection.ends
        if not attempt.is_abandoned and attempt.process.alive:
            attempt.settle(ours)
        if attempt.outcome is not ours:  # it has failed before, or was given up
            attempt.connection.abandon(ours)
            attempt.connection.tell_reset(theirs)

    def _forget(self, connection: SimulatedConnection) -> None:
        self._connections.pop(connection.number, None)

    def _send(self, what: str, source: NodeId, target: NodeId, arrive: Callable[[], None]) -> None:
        self.network.link(source, target).send(arrive, lambda fault: self.network.note(fault, source, target, what))

    def _note(self, what: str, source: NodeId, target: NodeId) -> None:
        self.network.note(what, source, target, "connect")


def _refusal(address: str) -> OSError:
    return ConnectionRefusedError(errno.ECONNREFUSED, f"{address} refused the connection")

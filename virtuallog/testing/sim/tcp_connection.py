"""A simulated TCP connection: two streams, the carrier of segments between them, and its failures.

    reset       one end, or both, see that the connection is gone; segments on the way are lost
    stall       nothing arrives for a while, then everything does
    vanish      nothing ever arrives again and neither end knows: a firewall has forgotten the
        connection
    half-open   a machine loses its power: the other end writes into the void until it gives up,
    until its keep-alive
                does, or until the machine is back and answers that it knows no such connection

A process that ends on a living machine leaves its connections to the kernel: written bytes still go
out, with an end behind them. But if bytes came that were never read, the other side sees a reset.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.tcp_segments import Incoming, Outgoing, StreamQuality, TcpSegment
from virtuallog.testing.sim.tcp_stream import SimulatedStream

KEEP_ALIVE_SECONDS: Final = 15.0
"""Silence after which an end sends keep-alive probes; `virtuallog.rpc.transport` sets it so."""
UNANSWERED_SECONDS: Final = 15.0
"""Time that it probes."""


@attrs.frozen
class Carried:
    """Description of a segment in a trace."""

    connection: int
    offset: int
    size: int
    is_last: bool = False


@attrs.define(eq=False)
class SimulatedConnection:
    """A connection made by `SimulatedTcpNetwork`. The end that has connected comes first."""

    number: int
    ends: tuple[SimulatedStream, SimulatedStream] = attrs.field(init=False)
    _network: SimulatedNetwork
    _is_down: Callable[[NodeId], bool]
    """Tells if a machine is without power."""
    _on_over: Callable[[SimulatedConnection], None]
    _stalled_until: float = attrs.field(default=0.0, init=False)
    _has_vanished: bool = attrs.field(default=False, init=False)

    @classmethod
    def between(
        cls,
        number: int,
        processes: tuple[Process, Process],
        network: SimulatedNetwork,
        source: random.Random,
        quality: StreamQuality,
        is_down: Callable[[NodeId], bool],
        on_over: Callable[[SimulatedConnection], None],
    ) -> SimulatedConnection:
        """Make a connection with ends that may be used at once."""
        connection = cls(number, network, is_down, on_over)
        first, second = (
            connection._make_end(index, process, source, quality) for index, process in enumerate(processes)
        )
        connection.ends = first, second
        return connection

    def _make_end(self, index: int, process: Process, source: random.Random, quality: StreamQuality) -> SimulatedStream:
        outgoing = Outgoing(
            self._network.timeline,
            source,
            quality,
            carry=lambda segment: self._carry(self.ends[index], segment),
            give_up=lambda: self._give_up(self.ends[index]),
            count=lambda what: self._note(what, self.ends[index], self.number),
        )
        return SimulatedStream(self, process, outgoing, Incoming(source, quality))

    def other(self, end: SimulatedStream) -> SimulatedStream:
        first, second = self.ends
        return second if end is first else first

    @property
    def is_open(self) -> bool:
        """True while an end still believes in it."""
        return any(end.is_open for end in self.ends)

    @property
    def nodes(self) -> tuple[NodeId, NodeId]:
        first, second = self.ends
        return first.process.node, second.process.node

    # -- faults -------------------------------------------------------------------------------------------------

    def reset(self, *ends: SimulatedStream) -> None:
        """Reset these ends, or both, at once. Another end notices when it next sends."""
        for end in ends or self.ends:
            end.break_off(ConnectionResetError("connection reset by peer"))
        for end in self.ends:
            self.keep_alive(end)

    def stall(self, seconds: float) -> None:
        """Let nothing arrive for so long, then everything."""
        self._stalled_until = self._network.timeline.now() + seconds

    def vanish(self) -> None:
        """Let nothing arrive any more, in either direction."""
        self._has_vanished = True
        for end in self.ends:
            self.keep_alive(end)

    def abandon(self, end: SimulatedStream) -> None:
        """Forget this end. The other one notices when it sends, or by its keep-alive."""
        end.break_off(ConnectionAbortedError("no service accepts this connection"))
        self.keep_alive(self.other(end))

    # -- what segments do ---------------------------------------------------------------------------------------

    def _carry(self, source: SimulatedStream, segment: TcpSegment) -> None:
        self._send(source, lambda: self._arrive(source, segment), segment)

    def _send(self, source: SimulatedStream, arrive: Callable[[], None], message: object) -> None:
        link = self._network.link(source.process.node, self.other(source).process.node)
        link.send(arrive, lambda what: self._note(what, source, message))

    def _arrive(self, source: SimulatedStream, segment: TcpSegment) -> None:
        target, timeline = self.other(source), self._network.timeline
        if self._has_vanished or self._is_down(target.process.node):
            return
        if timeline.now() < self._stalled_until:
            self._note("stalled", source, self.number)
            timeline.schedule_at(self._stalled_until, lambda: self._arrive(source, segment))
            return
        if not target.take_in(segment):
            if source.is_open:
                self.tell_reset(source)
            else:
                source.outgoing.stop()  # only its kernel was still trying
            return
        self._note("segments", source, segment)
        if not self._network.link(target.process.node, source.process.node).blocked:
            source.outgoing.acknowledge(segment)

    def tell_reset(self, end: SimulatedStream) -> None:
        """Let the other machine report that it knows no such connection. That message, too, may be
        lost."""
        if end.is_open:
            self._send(self.other(end), lambda: self._hear_reset(end), self.number)
            self.keep_alive(end)

    def _hear_reset(self, end: SimulatedStream) -> None:
        if end.is_open and not self._has_vanished:
            self._note("reset by peer", self.other(end), self.number)
            end.break_off(ConnectionResetError("connection reset by peer"))

    def _give_up(self, end: SimulatedStream) -> None:
        """Break an end without acknowledgements for long."""
        if end.is_open:
            self._note("given up", end, self.number)
        end.break_off(TimeoutError("connection timed out"))
        self.keep_alive(self.other(end))

    def keep_alive(self, end: SimulatedStream) -> None:
        """Let this end notice a dead connection some time later, if it still exists then."""
        if end.is_open:
            self._network.timeline.schedule(KEEP_ALIVE_SECONDS, lambda: self._probe(end))

    def _probe(self, end: SimulatedStream) -> None:
        peer = self.other(end)
        if not end.is_open or (peer.is_open and not self._has_vanished):
            return
        if self._has_vanished or self._is_down(peer.process.node):
            self._network.timeline.schedule(UNANSWERED_SECONDS, lambda: self._give_up(end))
        else:
            self.tell_reset(end)

    def was_forgotten(self, end: SimulatedStream) -> None:
        """Record that this end is gone, and the other one does not know."""
        other = self.other(end)
        if other.is_open:
            self._note("half-open", end, self.number)
            self.keep_alive(other)

    def was_ended(self) -> None:
        """Record that one of the ends is no longer open."""
        if not self.is_open:
            self._on_over(self)

    def _note(self, what: str, source: SimulatedStream, message: object) -> None:
        if isinstance(message, TcpSegment):
            message = Carried(self.number, message.offset, len(message.content), message.is_last)
        self._network.note(what, source.process.node, self.other(source).process.node, message)


def ends_of(process: Process, connections: Iterable[SimulatedConnection]) -> list[SimulatedStream]:
    """Return the ends that this process has of these connections."""
    return [end for connection in connections for end in connection.ends if end.process is process]

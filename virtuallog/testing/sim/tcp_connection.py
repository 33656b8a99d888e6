"""A simulated TCP connection: two streams, what carries segments between them, and the ways in which it breaks.

    reset       one end, or both, are told that the connection is gone; what was on the way is lost
    stall       nothing arrives for a while, then everything does
    vanish      nothing ever arrives again and nobody is told: a firewall has forgotten the connection
    half-open   a machine loses its power: the other end writes into the void until it gives up, until its keep-alive
                does, or until the machine is back and says that it knows no such connection

A process that ends on a living machine leaves its connections to the kernel: what was written still goes out, with an
end behind it; but if something came that was never read, the other side is told of a reset.
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
"""Until an end asks whether a silent one is still there. See `virtuallog.rpc.transport`, which sets it so."""
UNANSWERED_SECONDS: Final = 15.0
"""How long it asks."""


@attrs.frozen
class Carried:
    """What a trace says about a segment."""

    connection: int
    offset: int
    size: int
    is_last: bool = False


@attrs.define(eq=False)
class SimulatedConnection:
    """See above. Made by `SimulatedTcpNetwork`; the end that has connected comes first."""

    number: int
    ends: tuple[SimulatedStream, SimulatedStream] = attrs.field(init=False)
    _network: SimulatedNetwork
    _is_down: Callable[[NodeId], bool]
    """Whether a machine is without power."""
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
        """A new connection, whose ends may be used at once."""
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
        """Whether somebody still believes in it."""
        return any(end.is_open for end in self.ends)

    @property
    def nodes(self) -> tuple[NodeId, NodeId]:
        first, second = self.ends
        return first.process.node, second.process.node

    # -- faults -------------------------------------------------------------------------------------------------

    def reset(self, *ends: SimulatedStream) -> None:
        """These ends, or both, are told at once. One that is not learns of it when it next sends something."""
        for end in ends or self.ends:
            end.break_off(ConnectionResetError("connection reset by peer"))
        for end in self.ends:
            self.keep_alive(end)

    def stall(self, seconds: float) -> None:
        """Nothing arrives for so long, then everything does."""
        self._stalled_until = self._network.timeline.now() + seconds

    def vanish(self) -> None:
        """Nothing arrives any more, in either direction."""
        self._has_vanished = True
        for end in self.ends:
            self.keep_alive(end)

    def abandon(self, end: SimulatedStream) -> None:
        """Nobody wants this end, or knows of it. The other one is told when it sends something, or by its keep-alive."""
        end.break_off(ConnectionAbortedError("nobody wants this connection"))
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
        """Let the other machine say that it knows no such connection. That, too, may be lost."""
        if end.is_open:
            self._send(self.other(end), lambda: self._hear_reset(end), self.number)
            self.keep_alive(end)

    def _hear_reset(self, end: SimulatedStream) -> None:
        if end.is_open and not self._has_vanished:
            self._note("reset by peer", self.other(end), self.number)
            end.break_off(ConnectionResetError("connection reset by peer"))

    def _give_up(self, end: SimulatedStream) -> None:
        """Nobody has acknowledged anything for long."""
        if end.is_open:
            self._note("given up", end, self.number)
        end.break_off(TimeoutError("connection timed out"))
        self.keep_alive(self.other(end))

    def keep_alive(self, end: SimulatedStream) -> None:
        """If this end is still there some time later, and believes in a connection that is none, it finds out."""
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
        """This end is gone, and the other one has not been told."""
        other = self.other(end)
        if other.is_open:
            self._note("half-open", end, self.number)
            self.keep_alive(other)

    def was_ended(self) -> None:
        """One of the ends is no longer open."""
        if not self.is_open:
            self._on_over(self)

    def _note(self, what: str, source: SimulatedStream, message: object) -> None:
        if isinstance(message, TcpSegment):
            message = Carried(self.number, message.offset, len(message.content), message.is_last)
        self._network.note(what, source.process.node, self.other(source).process.node, message)


def ends_of(process: Process, connections: Iterable[SimulatedConnection]) -> list[SimulatedStream]:
    """The ends that this process has of them."""
    return [end for connection in connections for end in connection.ends if end.process is process]

"""Whether the newest register means this process: its data directory, at its address.

    here        the register names this directory, at an address of ours, or at one where this very process answers; or it names
                no other node: a cluster of one may go on anywhere, also in a program that does not listen (`virtuallog_server.embedded`)
    elsewhere   it names this directory at another address: wait, and ask there who answers. Moves nothing meanwhile
    copied      another process answers there on the same directory: this one is a copy, for good
    given up    it names another directory for this node, or none

Only who is here may change anything. To others that makes no difference in safety, as any client may change the chain; but the directory
that was given up would go by what it saw before it was cut off. For its own copies and votes it makes all the difference: no
other process counts them, and neither may this one (`virtuallog.rpc.services`, which checks calls to the own node like others).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from typing import Any, Final

import attrs
import structlog

from virtuallog.contract.address import split_address
from virtuallog.contract.errors import UnavailableError, VirtualLogError, WrongRecipientError
from virtuallog.contract.ports import Clock, Question, ReplyT, Request, Services
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.local_link import DeferredCalls
from virtuallog.rpc.protocol.node import Identity as Answerer
from virtuallog_server.storage.identity import FormatPhase, Identity

ASK_SECONDS: Final = 1.0
"""Between two questions at the registered address while this process is not known to be there."""
ASK_SECONDS_MAX: Final = 30.0
"""Once it is: a copy may be started later than the original, and the other way round."""
ANSWER_SECONDS: Final = 2.0

_EVERY_INTERFACE: Final = frozenset({"0.0.0.0", "::", "[::]"})

AddressProbe = Callable[[tuple[str, ...]], Awaitable[Answerer]]
"""Which process answers at the first of these addresses that answers at all. Raises VirtualLogError: none."""

log = structlog.get_logger(__name__)


async def no_address_probe(addresses: tuple[str, ...]) -> Answerer:
    """For a world without addresses."""
    raise UnavailableError(f"nobody can be asked who is at {', '.join(addresses)}")


@attrs.define(eq=False)
class IdentityFence:
    """See above. One per node."""

    identity: Identity
    _own: frozenset[str]
    """Addresses that are this process's own, by its config."""
    _nonce: bytes
    """Of this process; empty: it cannot be told from another one on the same directory and boot."""
    _who_is_at: AddressProbe
    refusal: VirtualLogError | None = attrs.field(default=None, init=False)
    """Why this process moves nothing; None: it is here, as far as is known."""
    copied: VirtualLogError | None = attrs.field(default=None, init=False)
    """Another process is on the same directory, at the registered address."""
    _version: int = attrs.field(default=-1, init=False)
    _addresses: tuple[str, ...] = attrs.field(default=(), init=False)
    """Registered ones of this directory; none: it is not named, or no register is known."""
    _is_alone: bool = attrs.field(default=False, init=False)
    """The register names no other node."""
    _found_at: tuple[str, ...] = attrs.field(default=(), init=False)
    """Where this very process has answered."""

    def learn(self, register: Register) -> None:
        """Go by this register from now on, unless a newer one is known. Costs microseconds."""
        if register.version <= self._version or self.identity.phase is not FormatPhase.FORMATTED:
            return  # a directory that joins is not named yet, and has nothing to move
        self._version = register.version
        entry = register.nodes.get(self.identity.node)
        is_named = entry is not None and entry.store_id == self.identity.store_id
        self._addresses = entry.addresses if entry is not None and is_named else ()
        self._is_alone = register.nodes.keys() == {self.identity.node}
        if is_named:
            self._look_at_addresses()
        else:
            found = "none: the node was removed" if entry is None else "another data directory"
            self.refusal = WrongRecipientError("data directory", found, self.identity.store_id.hex())

    def refusal_of(self, node: NodeId, request: Request[Any]) -> VirtualLogError | None:
        """Why this request to `node` must not leave, if it must not. A call to the own node also meets the check of who is there."""
        if self.refusal is None:
            return None
        is_local = node == self.identity.node and bool(self._addresses)
        return None if isinstance(request, Question) and not is_local else self.refusal

    @property
    def problem(self) -> str:
        """For the node's status. Empty if it is here; the node that was given up is told by others (`virtuallog_server.node.register_follower`)."""
        return f"identity: {self.refusal}" if self.refusal is not None and self._addresses else ""

    def check(self) -> None:
        """`Environment.check_resident`."""
        if self.refusal is not None:
            raise copy(self.refusal)

    def check_can_add(self, node: NodeId) -> None:
        """To be called before `node` is added to the register: a process that is alone may be elsewhere, and one of several may not.

        Raises:
            WrongRecipientError: this process is not at its registered address. Once there is another node it could change nothing any
                more, not even back.
        """
        if node != self.identity.node and (elsewhere := self._elsewhere()) is not None:
            raise elsewhere

    async def run(self, clock: Clock, on_copied: Callable[[VirtualLogError], None]) -> None:
        """Ask, now and then, who is at the registered address, for ever.

        Args:
            clock: of the node.
            on_copied: called once another process has answered there for this directory.
        """
        while True:
            asked = self._addresses
            if asked and self.copied is None:
                self.copied = await self._ask(asked)
                self._look_at_addresses()
                if self.copied is not None:
                    log.error("copied data directory", reason=str(self.copied))
                    on_copied(self.copied)
            is_here = asked == self._addresses and self.refusal is None
            await clock.sleep(ASK_SECONDS_MAX if is_here and asked else ASK_SECONDS)

    async def _ask(self, addresses: tuple[str, ...]) -> VirtualLogError | None:
        """That another process has answered there for this directory, if it is so."""
        try:
            found = await self._who_is_at(addresses)
        except VirtualLogError as error:
            log.debug("the registered address", addresses=addresses, reason=str(error))
            return None
        if found.store_id != self.identity.store_id:
            return None
        if found.boot == self.identity.boot and found.nonce == self._nonce:
            self._found_at = addresses
        elif found.nonce or found.boot != self.identity.boot:
            where = ", ".join(addresses)
            return WrongRecipientError("data directory", f"the one in use at {where}", "a copy of it")
        return None

    def _look_at_addresses(self) -> None:
        self.refusal = self.copied or (None if self._is_alone else self._elsewhere())

    def _elsewhere(self) -> WrongRecipientError | None:
        """That the register has this directory at an address where this process is not; None: it has none, or this process is there."""
        addresses = self._addresses
        if not addresses or addresses == self._found_at or not self._own.isdisjoint(addresses):
            return None
        registered, own = ", ".join(addresses), ", ".join(sorted(self._own))
        return WrongRecipientError("address of this data directory", f"{registered}, as registered", own)


@attrs.define(eq=False)
class FencedServices:
    """`ports.Services` of a node. Unless the process is here, what changes anything is refused, whoever is asked, and so is
    everything that a directory elsewhere asks itself: its store id is right, only nobody else means it."""

    _services: Services
    _fence: IdentityFence
    later: DeferredCalls = attrs.field(factory=DeferredCalls, init=False)
    """Where refusals are told. Its task is not run here."""

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        """`ports.Services.post`."""
        refusal = self._fence.refusal_of(node, request)
        if refusal is None:
            self._services.post(node, request, done, timeout_seconds)
        else:
            self.later.report(done, refusal)

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        """`ports.Services.call`."""
        refusal = self._fence.refusal_of(node, request)
        if refusal is None:
            return await self._services.call(node, request, timeout_seconds)
        raise copy(refusal)


def own_addresses(listen: str, peers: Iterable[tuple[int, str]], node: int) -> frozenset[str]:
    """The addresses that are a node's own by its config: where it listens. If that is every interface, the one that the list of peers
    has for it: else that list may be as old, or as copied, as the directory."""
    host, _ = split_address(listen, port_min=0)
    if host not in _EVERY_INTERFACE:
        return frozenset({listen})
    return frozenset({listen, *(address for peer, address in peers if peer == node)})

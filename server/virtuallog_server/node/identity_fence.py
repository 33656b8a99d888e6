"""Fence for a process that the newest register no longer means: it checks the data directory and its address.

    here        the register names this directory, at an address of ours, or at one where this very process answers; or it names
                no other node: a cluster of one may go on anywhere, also in a program that does not listen (`virtuallog_server.embedded`)
    elsewhere   it names this directory at another address: wait, and ask there who answers. Moves nothing meanwhile
    copied      another process answers there on the same directory: this one is a copy, for good
    given up    it names another directory for this node, or none

Only a process that is *here* may change anything. For other nodes this makes no difference in safety, as any client may change
the chain; but a directory that was given up would act on the state before it was cut off. For its own copies and votes it is
essential: no other process counts them, and neither may this one (`virtuallog.rpc.services`, which checks calls to the own node
like others).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from typing import Any, Final

import attrs

from virtuallog.contract.address import split_address
from virtuallog.contract.errors import UnavailableError, VirtualLogError, WrongRecipientError
from virtuallog.contract.ports import Clock, Question, ReplyT, Request, Services
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.local_link import DeferredCalls
from virtuallog.rpc.protocol.node import Identity as Answerer
from virtuallog.runtime import log
from virtuallog_server.storage.identity import FormatPhase, Identity

ASK_SECONDS: Final = 1.0
"""Pause between two questions at the registered address, while this process is not known to be there."""
ASK_SECONDS_MAX: Final = 30.0
"""The same pause once it is. A copy may be started later than the original, and the other way round."""
ANSWER_SECONDS: Final = 2.0
"""Timeout of one question to the process at an address, in seconds."""

_EVERY_INTERFACE: Final = frozenset({"0.0.0.0", "::", "[::]"})

AddressProbe = Callable[[tuple[str, ...]], Awaitable[Answerer]]
"""Finds the process at the first of these addresses that answers. Raises VirtualLogError if none does."""


async def no_address_probe(addresses: tuple[str, ...]) -> Answerer:
    """The probe of a world without addresses."""
    raise UnavailableError(f"no process can be asked at {', '.join(addresses)}")


@attrs.define(eq=False)
class IdentityFence:
    """The fence of one node."""

    identity: Identity
    _own: frozenset[str]
    """Addresses of this process, by its config."""
    _nonce: bytes
    """Nonce of this process. If empty, it cannot be told from another one on the same directory and boot."""
    _who_is_at: AddressProbe
    refusal: VirtualLogError | None = attrs.field(default=None, init=False)
    """Reason why this process changes nothing. None if it is here, as far as is known."""
    copied: VirtualLogError | None = attrs.field(default=None, init=False)
    """Set once another process on the same directory has answered at the registered address."""
    _version: int = attrs.field(default=-1, init=False)
    _addresses: tuple[str, ...] = attrs.field(default=(), init=False)
    """Registered addresses of this directory. Empty if it is not named, or no register is known."""
    _is_alone: bool = attrs.field(default=False, init=False)
    """True if the register names no other node."""
    _found_at: tuple[str, ...] = attrs.field(default=(), init=False)
    """Addresses at which this very process has answered."""

    def learn(self, register: Register) -> None:
        """Go by this register from now on, unless a newer one is known. Takes microseconds."""
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
        """The refusal of a request to `node`. None if it may leave.

        A call to the own node also passes the check for the identity of the callee.
        """
        if self.refusal is None:
            return None
        is_local = node == self.identity.node and bool(self._addresses)
        return None if isinstance(request, Question) and not is_local else self.refusal

    @property
    def problem(self) -> str:
        """The problem for the node's status.

        Empty if the process is here. Of a node that was given up `virtuallog_server.node.register_follower` reports it.
        """
        return f"identity: {self.refusal}" if self.refusal is not None and self._addresses else ""

    def check(self) -> None:
        """Raise the refusal, if there is one (`Environment.check_resident`)."""
        if self.refusal is not None:
            raise copy(self.refusal)

    def check_can_add(self, node: NodeId) -> None:
        """Check that `node` may be added to the register. A process that is alone may be elsewhere; one of several may not.

        Raises:
            WrongRecipientError: this process is not at its registered address. With a second node it could change nothing any
                more, not even its address.
        """
        if node != self.identity.node and (elsewhere := self._elsewhere()) is not None:
            raise elsewhere

    async def run(self, clock: Clock, on_copied: Callable[[VirtualLogError], None]) -> None:
        """Ask now and then for the process at the registered address, for ever.

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
        """The error if another process has answered there for this directory. None otherwise."""
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
        """The error if the register has this directory at an address where this process is not. None otherwise."""
        addresses = self._addresses
        if not addresses or addresses == self._found_at or not self._own.isdisjoint(addresses):
            return None
        registered, own = ", ".join(addresses), ", ".join(sorted(self._own))
        return WrongRecipientError("address of this data directory", f"{registered}, as registered", own)


@attrs.define(eq=False)
class FencedServices:
    """The `ports.Services` of a node, behind its fence.

    Unless the process is here, every request that changes something is refused, for any callee. So is every request of a
    directory elsewhere to its own node: the store id is right, but no other process means this one.
    """

    _services: Services
    _fence: IdentityFence
    later: DeferredCalls = attrs.field(factory=DeferredCalls, init=False)
    """Reports refusals to their callers. Its task is not run here."""

    def post(
        self,
        node: NodeId,
        request: Request[ReplyT],
        done: Callable[[ReplyT | VirtualLogError], None],
        timeout_seconds: float,
    ) -> None:
        """`ports.Services.post`."""
        refusal = self._fence.refusal and self._fence.refusal_of(node, request)
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
    """The addresses of a node by its config: the one it listens on.

    If it listens on every interface, also its address in the list of peers. Otherwise that list is not used: it may be as old, or
    as copied, as the directory.
    """
    host, _ = split_address(listen, port_min=0)
    if host not in _EVERY_INTERFACE:
        return frozenset({listen})
    return frozenset({listen, *(address for peer, address in peers if peer == node)})

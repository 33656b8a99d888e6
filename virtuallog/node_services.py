"""Calls to the nodes of a cluster, without a log: for administration, and for `virtuallog.connect`, which adds the log."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import CONTROL, NodeStatus
from virtuallog.admin.membership import MEMBERSHIP
from virtuallog.client.address_book import AddressBook
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import UnavailableError, UntrustedError, VirtualLogError
from virtuallog.contract.ports import Outcome, ReplyT, Request, Services
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import tcp_connect
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors


@asynccontextmanager
async def open_services_to(cluster: ClusterFile, more: Sequence[Interface] = ()) -> AsyncIterator[Services]:
    """Open the services of the nodes in a cluster file, without a log: `control`, `membership` and `more`.

    Raises:
        InvalidSettingError: our certificate cannot be used.
    """
    credentials = Credentials.open(cluster.tls) if cluster.tls else None
    async with run_services(AddressBook.of(cluster.nodes), more, credentials) as services:
        yield services


@asynccontextmanager
async def run_services(
    book: AddressBook, interfaces: Sequence[Interface], credentials: Credentials | None
) -> AsyncIterator[RpcServices]:
    """Open services for calls to the nodes of an address book: `control`, `membership` and `interfaces`."""
    services = RpcServices(
        [CONTROL, MEMBERSHIP, *interfaces], book.find, tcp_connect(credentials), SystemClock(), random.Random()
    )
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(services.run)
            yield services
            nursery.cancel_scope.cancel()


async def ask_living(
    services: Services, cluster: ClusterFile, request: Request[ReplyT], timeout_seconds: float
) -> ReplyT:
    """Send a request to one of the listed nodes that takes part in the cluster (`ask_one_of`)."""
    return await ask_one_of(services, listed_nodes(cluster), request, timeout_seconds)


async def ask_one_of(
    services: Services,
    nodes: Iterable[NodeId],
    request: Request[ReplyT],
    timeout_seconds: float,
    *,
    avoid: NodeId | None = None,
) -> ReplyT:
    """Send a request to one node that takes part in the cluster; returns its reply.

    Args:
        services: to call nodes.
        nodes: candidates. The first one that lives is asked.
        request: the request.
        timeout_seconds: of the request, after the choice of the node.
        avoid: a node that is asked only if no other one lives.

    Raises:
        UnavailableError: there is no such node, or it did not answer in time: unknown outcome.
        VirtualLogError: the error that the node answered.
    """
    answers = await fetch_statuses(services, nodes)
    able = [node for node, answer in answers.items() if not isinstance(answer, VirtualLogError) and answer.register]
    if not able:
        raise _no_usable_node(answers)
    return await services.call(min(able, key=lambda node: node == avoid), request, timeout_seconds)


def newest_register(answers: Mapping[NodeId, Outcome[NodeStatus]]) -> Register:
    """The newest register that a node knows.

    Raises:
        UnavailableError: no node answered, or none knows a register.
    """
    known = [
        decode_untrusted(answer.register)
        for answer in answers.values()
        if not isinstance(answer, VirtualLogError) and answer.register
    ]
    if not known:
        raise _no_usable_node(answers)
    return max(known, key=lambda register: register.version)


def _no_usable_node(answers: Mapping[NodeId, Outcome[NodeStatus]]) -> VirtualLogError:
    refusals = [answer for answer in answers.values() if isinstance(answer, UntrustedError)]
    if refusals and len(refusals) == len(answers):
        return refusals[0]
    reasons = "; ".join(f"node {node}: {_reason(answer)}" for node, answer in answers.items())
    return UnavailableError(
        f"no node of the cluster can be used ({reasons}): start one, or correct the addresses in the cluster file"
    )


def _reason(answer: Outcome[NodeStatus]) -> str:
    if isinstance(answer, VirtualLogError):
        return str(answer)
    return "; ".join(answer.failures) or "the cluster has not been bootstrapped"


def listed_nodes(cluster: ClusterFile) -> list[NodeId]:
    """The nodes of a cluster file."""
    return [NodeId(node.id) for node in cluster.nodes]

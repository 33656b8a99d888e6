"""A client of a cluster as commands need it: for one request to any node that lives, or for the log itself."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from server.address_book import AddressBook
from server.config import ClusterFile
from server.plugins import all_interfaces, loglet_providers, metastore_provider
from server.survey import ask_all, survey
from virtuallog.clock import SystemClock
from virtuallog.control import CONTROL, NodeStatus
from virtuallog.errors import UnavailableError, VirtualLogError
from virtuallog.ports import Environment, Outcome, ReplyT, Request, Services
from virtuallog.register import Register, decode_untrusted
from virtuallog.rpc.interface import Interface
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import tcp_connect
from virtuallog.types import NodeId
from virtuallog.virtual_log import VirtualLog


@asynccontextmanager
async def open_services_to(cluster: ClusterFile) -> AsyncIterator[Services]:
    """Control requests to the nodes of a cluster file."""
    async with _run_services(AddressBook.of(cluster.nodes), [CONTROL]) as services:
        yield services


@asynccontextmanager
async def open_log(cluster: ClusterFile) -> AsyncIterator[VirtualLog]:
    """A client of the cluster's log.

    Raises:
        UnavailableError: none of the listed nodes answers, or the cluster is not bootstrapped.
    """
    book, source, clock = AddressBook.of(cluster.nodes), random.Random(), SystemClock()
    providers, metastore = loglet_providers(), metastore_provider()
    async with _run_services(book, all_interfaces(providers, metastore)) as services, trio.open_nursery() as nursery:
        register = newest_register(await ask_all(services, _ids(cluster)))
        book.learn(register)
        environment = Environment(services=services, clock=clock, random=source, nursery=nursery)
        log = VirtualLog(
            metastore.open(register.members, environment),
            providers,
            environment,
            planner=lambda known: survey(services, known, register.members[0]),
        )
        log.view.adopt(register)
        yield log
        nursery.cancel_scope.cancel()


async def ask_living(
    services: Services, cluster: ClusterFile, request: Request[ReplyT], timeout_seconds: float
) -> ReplyT:
    """Send the request to one node that takes part in the cluster.

    Raises:
        UnavailableError: none does, or it did not answer in time: the outcome is unknown.
        VirtualLogError: what the node answered.
    """
    answers = await ask_all(services, _ids(cluster))
    for node, answer in answers.items():
        if not isinstance(answer, VirtualLogError) and answer.register:
            return await services.call(node, request, timeout_seconds)
    raise _nobody(answers)


def newest_register(answers: dict[NodeId, Outcome[NodeStatus]]) -> Register:
    """The register of the node that knows most.

    Raises:
        UnavailableError: no node answered, or none knows a register.
    """
    known = [
        decode_untrusted(answer.register)
        for answer in answers.values()
        if not isinstance(answer, VirtualLogError) and answer.register
    ]
    if not known:
        raise _nobody(answers)
    return max(known, key=lambda register: register.version)


def _nobody(answers: dict[NodeId, Outcome[NodeStatus]]) -> UnavailableError:
    reasons = "; ".join(f"node {node}: {_reason(answer)}" for node, answer in answers.items())
    return UnavailableError(f"no node of the cluster can be used ({reasons})")


def _reason(answer: Outcome[NodeStatus]) -> str:
    if isinstance(answer, VirtualLogError):
        return str(answer)
    return "; ".join(answer.failures) or "the cluster has not been bootstrapped"


def _ids(cluster: ClusterFile) -> list[NodeId]:
    return [NodeId(node.id) for node in cluster.nodes]


@asynccontextmanager
async def _run_services(book: AddressBook, interfaces: Sequence[Interface]) -> AsyncIterator[RpcServices]:
    services = RpcServices(interfaces, book.find, tcp_connect(), SystemClock(), random.Random())
    async with trio.open_nursery() as nursery:
        await nursery.start(services.run)
        yield services
        nursery.cancel_scope.cancel()

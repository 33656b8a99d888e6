"""Connection to a cluster: find the nodes, learn the register, open a VirtualLog.

async with connect("cluster/cluster.toml") as log:
    position = await log.append(b"entry")
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_cluster, fetch_statuses
from virtuallog.admin.control import CONTROL, NodeStatus
from virtuallog.admin.membership import MEMBERSHIP
from virtuallog.client.address_book import AddressBook
from virtuallog.client.cluster_file import ClusterFile, read_cluster_file, with_own_certificate
from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import UnavailableError, UntrustedError, VirtualLogError, WrongRecipientError
from virtuallog.contract.ports import Environment, Outcome, ReplyT, Request, Services
from virtuallog.contract.provider import LogletProvider, compose
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.plugins import all_interfaces, loglet_providers, metastore_provider
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import tcp_connect
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors


@asynccontextmanager
async def connect(
    cluster: str | Path | ClusterFile,
    *,
    providers: Mapping[str, LogletProvider] | None = None,
    settings: VirtualLogSettings | None = None,
    more: Sequence[Interface] = (),
    near: NodeId | None = None,
    expected_cluster: bytes | None = None,
) -> AsyncIterator[VirtualLog]:
    """Open a client of the cluster's log. It is closed at the end of the block.

    Args:
        cluster: path of a `cluster.toml`, with the certificate that the environment names, if any
            (`with_own_certificate`); or its content, used as it is.
        providers: the loglet kinds to use, by name; None: all that are installed.
        settings: None: the defaults.
        more: further interfaces of nodes, to be called through the services of the log's environment.
        near: the node asked first for entries that it stores; None: all clients ask the same node first.
        expected_cluster: id of the cluster (`Register.cluster`); None: any.

    Raises:
        UnavailableError: none of the listed nodes answers, or the cluster is not bootstrapped.
        UntrustedError: no node accepts our certificate, or proves that it belongs to our cluster.
        WrongRecipientError: the nodes belong to another cluster than expected.
        InvalidSettingError: the file, or our certificate, cannot be used.
    """
    seeds = cluster if isinstance(cluster, ClusterFile) else _read_own(Path(cluster))
    kinds, metastore = providers if providers is not None else loglet_providers(), metastore_provider()
    compose(kinds)
    book, source = AddressBook.of(seeds.nodes), random.Random()
    credentials = Credentials.open(seeds.tls) if seeds.tls else None
    async with _run_services(book, [*all_interfaces(kinds, metastore), *more], credentials) as services:
        register = newest_register(await fetch_statuses(services, _ids(seeds)))
        _check_cluster(register, expected_cluster)
        book.learn(register)
        with unwrapped_errors():
            async with trio.open_nursery() as nursery:
                environment = Environment(
                    services=services,
                    clock=SystemClock(),
                    random=source,
                    nursery=nursery,
                    learned=book.learn_value,
                    near=near,
                )
                yield VirtualLog(
                    metastore.open(register.members, environment),
                    kinds,
                    environment,
                    planner=lambda known: fetch_cluster(services, known, register.members[0]),
                    settings=_as_permitted(settings or VirtualLogSettings(), credentials),
                    register=register,
                    on_register=book.learn,
                )
                nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_services_to(cluster: ClusterFile, more: Sequence[Interface] = ()) -> AsyncIterator[Services]:
    """Open the services of the nodes in a cluster file, without a log: `control`, `membership` and `more`.

    Raises:
        InvalidSettingError: our certificate cannot be used.
    """
    credentials = Credentials.open(cluster.tls) if cluster.tls else None
    async with _run_services(AddressBook.of(cluster.nodes), [CONTROL, MEMBERSHIP, *more], credentials) as services:
        yield services


async def ask_living(
    services: Services, cluster: ClusterFile, request: Request[ReplyT], timeout_seconds: float
) -> ReplyT:
    """Send a request to one node that takes part in the cluster; returns its reply.

    Raises:
        UnavailableError: there is no such node, or it did not answer in time: unknown outcome.
        VirtualLogError: the error that the node answered.
    """
    answers = await fetch_statuses(services, _ids(cluster))
    for node, answer in answers.items():
        if not isinstance(answer, VirtualLogError) and answer.register:
            return await services.call(node, request, timeout_seconds)
    raise _no_usable_node(answers)


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
    return UnavailableError(f"no node of the cluster can be used ({reasons})")


def _reason(answer: Outcome[NodeStatus]) -> str:
    if isinstance(answer, VirtualLogError):
        return str(answer)
    return "; ".join(answer.failures) or "the cluster has not been bootstrapped"


def _read_own(path: Path) -> ClusterFile:
    return with_own_certificate(read_cluster_file(path), os.environ)


def _check_cluster(register: Register, expected: bytes | None) -> None:
    if expected is not None and register.cluster != expected:
        raise WrongRecipientError("cluster", expected.hex(), register.cluster.hex())


def _ids(cluster: ClusterFile) -> list[NodeId]:
    return [NodeId(node.id) for node in cluster.nodes]


@asynccontextmanager
async def _run_services(
    book: AddressBook, interfaces: Sequence[Interface], credentials: Credentials | None
) -> AsyncIterator[RpcServices]:
    services = RpcServices(interfaces, book.find, tcp_connect(credentials), SystemClock(), random.Random())
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            await nursery.start(services.run)
            yield services
            nursery.cancel_scope.cancel()


def _as_permitted(settings: VirtualLogSettings, credentials: Credentials | None) -> VirtualLogSettings:
    """Settings that fit the role of our certificate. Without TLS all clients may do everything."""
    if credentials is None or credentials.owner.role >= Role.ADMIN:
        return settings
    return attrs.evolve(settings, chain=attrs.evolve(settings.chain, may_change=False))

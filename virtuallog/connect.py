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
from virtuallog.client.address_book import AddressBook
from virtuallog.client.cluster_file import ClusterFile, read_cluster_file, with_own_certificate
from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import WrongRecipientError
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, compose
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.node_services import listed_nodes, newest_register, run_services
from virtuallog.plugins import KindsOnDemand, loglet_providers, metastore_provider
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.services import RpcServices
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
    brief: bool = False,
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
        brief: True for a program that ends soon. Without `providers` it imports a kind of loglets when the log first
            uses it. False to import all at once: then no swap to another kind waits for an import.

    Raises:
        UnavailableError: none of the listed nodes answers, or the cluster is not bootstrapped.
        UntrustedError: no node accepts our certificate, or proves that it belongs to our cluster.
        WrongRecipientError: the nodes belong to another cluster than expected.
        InvalidSettingError: the file, or our certificate, cannot be used.
    """
    seeds = cluster if isinstance(cluster, ClusterFile) else _read_own(Path(cluster))
    metastore = metastore_provider()
    book, source = AddressBook.of(seeds.nodes), random.Random()
    credentials = Credentials.open(seeds.tls) if seeds.tls else None
    async with run_services(book, [*metastore.interfaces, *more], credentials) as services:
        kinds = _kinds(providers, services, brief)
        register = newest_register(await fetch_statuses(services, listed_nodes(seeds)))
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


def _kinds(
    providers: Mapping[str, LogletProvider] | None, services: RpcServices, brief: bool
) -> Mapping[str, LogletProvider]:
    """The kinds of loglets for a log, whose requests `services` know by the time a loglet is opened."""
    if providers is None and brief:
        return KindsOnDemand(lambda provider: services.learn(provider.interfaces))
    kinds = loglet_providers() if providers is None else providers
    compose(kinds)
    for provider in kinds.values():
        services.learn(provider.interfaces)
    return kinds


def _read_own(path: Path) -> ClusterFile:
    return with_own_certificate(read_cluster_file(path), os.environ)


def _check_cluster(register: Register, expected: bytes | None) -> None:
    if expected is not None and register.cluster != expected:
        raise WrongRecipientError("cluster", expected.hex(), register.cluster.hex())


def _as_permitted(settings: VirtualLogSettings, credentials: Credentials | None) -> VirtualLogSettings:
    """Settings that fit the role of our certificate. Without TLS all clients may do everything."""
    if credentials is None or credentials.owner.role >= Role.ADMIN:
        return settings
    return attrs.evolve(settings, chain=attrs.evolve(settings.chain, may_change=False))

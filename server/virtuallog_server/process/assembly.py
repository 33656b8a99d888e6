"""Assembly of a node on the real ports of this process: its data directory, its clock, calls to other nodes.

Nothing runs or listens yet: `virtuallog_server.process.process` and `virtuallog_server.embedded` start the parts.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs

from virtuallog.client.address_book import AddressBook
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import StorageError
from virtuallog.contract.ports import Clock, Handler, Handlers, Request
from virtuallog.contract.types import NodeId
from virtuallog.plugins import all_interfaces, loglet_providers, metastore_provider
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import Connect
from virtuallog.runtime import log
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.control.wire import INTERFACES
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.restored_origin import Origin, claim_origin, read_origin
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.node.health import rpc_identity
from virtuallog_server.node.identity_fence import ANSWER_SECONDS
from virtuallog_server.node.node import Node
from virtuallog_server.node.ports import NodePorts
from virtuallog_server.storage.data_directory import open_data_directory
from virtuallog_server.storage.identity import Identity


async def _origin(url: str) -> Origin | None:
    return await read_origin(FsspecFiles(url), url) if url else None


async def _claim_origin(url: str, stores: Mapping[NodeId, bytes]) -> None:
    try:
        await claim_origin(FsspecFiles(url), url, stores)
    except StorageError as error:  # the place may be read-only: then the operator must take care
        log.warning("the restore could not be marked as in use", origin=url, reason=str(error))


@attrs.frozen(kw_only=True, eq=False)
class Assembly:
    """A node and its surroundings. `services.run` must run before `node.run` does."""

    node: Node
    services: RpcServices
    handlers: Handlers
    """The handlers of the node, for its RPC server."""
    interfaces: Sequence[Interface]
    """The wire form of each request."""
    clock: Clock
    random: random.Random


@asynccontextmanager
async def assemble_node(config: NodeConfig, connect: Connect) -> AsyncIterator[Assembly]:
    """Assemble a node in its data directory, which is locked for the length of the block. This start is counted.

    Raises:
        InvalidSettingError: another process uses the data directory.
        WrongRecipientError: it is not this node's.
        CorruptionError, MalformedError, StorageError: it cannot be used.
    """
    async with open_data_directory(config.data) as data:
        identity = await Identity.open(data.root, config.node)
        book = AddressBook.of(config.all_peers, config.versions)
        book.expect(identity.cluster or b"")
        # The system's generator: passwords of sessions and nonces come from it. An observer of some hundred numbers of Python's
        # own generator could predict the next ones.
        clock, source = SystemClock(), random.SystemRandom()
        nonce = source.randbytes(16)
        providers, metastore = loglet_providers(), metastore_provider()
        handlers: dict[type[Request[Any]], Handler] = {}  # filled below: a node calls itself through its own services
        interfaces = [*all_interfaces(providers, metastore), *INTERFACES]
        services = RpcServices(
            interfaces, book.find, connect, clock, source,
            node=config.node, handlers=handlers, identity=partial(rpc_identity, identity, config.versions, nonce),
        )  # fmt: skip
        ports = NodePorts(
            services=services,
            clock=clock,
            random=source,
            storage=data.storage,
            key_values=data.key_values,
            local_store=data.local_store,
            origin=partial(_origin, config.origin),
            claim_origin=partial(_claim_origin, config.origin),
            stores_present=data.present,
            disk_space=data.space,
            nonce=nonce,
            who_is_at=partial(services.who_is_at, timeout_seconds=ANSWER_SECONDS),
            watch_connections=services.watch_connections,
        )
        node = Node(ports, config, identity, providers=providers, metastore=metastore, on_register=book.learn)
        handlers.update(node.handlers)
        yield Assembly(
            node=node, services=services, handlers=handlers, interfaces=interfaces, clock=clock, random=source
        )

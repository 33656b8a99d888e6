"""A node as a process: real ports, signals, and an orderly end.

    data directory locked -> identity read, start counted -> listening -> Node.run ... SIGTERM -> everything closed

The end matters to no safety property: a killed process loses nothing that it has acknowledged.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import trio
from trio.abc import Listener

from virtuallog.contract.address import refuse_open_address
from virtuallog.contract.errors import InvalidSettingError, UnsupportedError
from virtuallog.contract.ports import Clock
from virtuallog.rpc.admission import ServerLimits
from virtuallog.rpc.security.credentials import Credentials
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.transport import tcp_connect
from virtuallog.runtime import log
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.node.node import Node
from virtuallog_server.process import log_output
from virtuallog_server.process.assembly import assemble_node
from virtuallog_server.process.end_signals import end_on_signal
from virtuallog_server.process.listeners import listen
from virtuallog_server.process.resources import MemoryTrimmer, allow_connections, trim_memory
from virtuallog_server.process.service_manager import service_manager

if TYPE_CHECKING:
    from virtuallog_server.process.zookeeper_ports import ZooKeeperPorts

SWITCH_SECONDS: Final = 0.0005
"""Longest time that a thread keeps the interpreter from others. The default, 5 ms, is several syncs long: the event loop
would learn late that the appender thread has finished one.
"""
YOUNG_OBJECTS: Final = 20_000
"""New objects before Python searches them for cycles; by default 700. A few hundred requests in progress hold thousands, none
of them in a cycle. Each search in vain makes them older, until the whole heap is searched: a tenth of a busy server's time.
"""


def serve(config: NodeConfig, *, end_with_parent: bool = False, started: Callable[[], None] = lambda: None) -> None:
    """Run a node until SIGTERM or SIGINT. The file `pid` in the data directory names this process meanwhile.

    Args:
        config: of this node.
        end_with_parent: end also when stdin is closed, which happens at the latest when the parent process is gone.
        started: called once this process has locked the data directory and listens at all its addresses.

    Raises (within exception groups):
        InvalidSettingError: the address cannot be used, or the data directory is in use.
        WrongRecipientError: the data directory is not this node's or this cluster's.
        CorruptionError, MalformedError, StorageError: the data directory cannot be used.
        ModuleNotFoundError: the config has an HTTP address, and the extra `console` is not installed.
    """
    refuse_optimised_python()
    if config.tls is None:
        refuse_open_address(config.listen)
    for address in (config.console, *(config.zookeeper.open_addresses if config.zookeeper else ())):
        if address:
            refuse_open_address(address)
    if config.console or config.probes or (config.zookeeper and config.zookeeper.admin_listen):
        require_http()
    log_output.configure(config.log_level, as_json=config.log_json, node=config.id)
    sys.setswitchinterval(SWITCH_SECONDS)
    trio.run(_run_until_signalled, config, end_with_parent, started)


def refuse_optimised_python() -> None:
    """Refuse `python -O`. It drops assertions, which stop a node before it acts on an impossible state.

    Raises:
        UnsupportedError: this process runs under it.
    """
    if sys.flags.optimize:
        raise UnsupportedError("a node does not run under python -O: its assertions are part of its safety")


def require_http() -> None:
    """Check that the libraries for HTTP are installed, before the data directory is touched.

    Raises:
        ModuleNotFoundError: one is missing.
    """
    for module in ("hypercorn", "starlette", "prometheus_client"):
        if find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


async def _run_until_signalled(config: NodeConfig, end_with_parent: bool, started: Callable[[], None]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_on_signal, nursery.cancel_scope)
        if end_with_parent:
            nursery.start_soon(_end_with_parent, nursery.cancel_scope)
        await _run(config, started)


def _freeze_objects() -> None:
    """Exclude all present objects from garbage collection: modules and parts stay as long as the process.

    Rejected: no collection at all. Cycles that libraries leave behind, such as tracebacks of failed connections, must go.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


async def _run(config: NodeConfig, started: Callable[[], None]) -> None:
    credentials = open_credentials(config)
    manager = service_manager()
    async with assemble_node(config, tcp_connect(credentials)) as parts:
        node, services, clock = parts.node, parts.services, parts.clock
        limits = ServerLimits(
            connections_max=allow_connections(config.connections_max), held_bytes_max=config.connections_bytes_max
        )
        server = RpcServer(
            parts.handlers, parts.interfaces, node.rpc_identity, clock, limits, credentials, node.guard
        )  # fmt: skip
        listeners = await listen(config.listen)
        consoles = await listen(config.console) if config.console else []
        probes = await listen(config.probes) if config.probes else []
        zookeeper_ports = await _open_zookeeper_ports(node, clock)
        started()
        identity = node.identity
        _freeze_objects()
        log.info("listening", address=config.listen, boot=identity.boot, phase=identity.phase.value)
        async with trio.open_nursery() as nursery:
            if credentials is not None:
                nursery.start_soon(_reload_on_signal, credentials)
            await nursery.start(services.run)
            nursery.start_soon(node.run)
            nursery.start_soon(manager.run, clock, node.not_ready)
            nursery.start_soon(MemoryTrimmer(clock, lambda: server.held_bytes, trim_memory).run)
            if consoles or probes:
                nursery.start_soon(_run_console, node, [node, services, server], clock, credentials, consoles, probes)
            if zookeeper_ports is not None:
                nursery.start_soon(zookeeper_ports.serve)
            await server.serve(listeners)


def open_credentials(config: NodeConfig) -> Credentials | None:
    """Load the files of `[tls]`. None without that section.

    Raises:
        InvalidSettingError: they cannot be used, or are not this node's.
    """
    if config.tls is None:
        return None
    credentials = Credentials.open(config.tls)
    if credentials.owner.node != config.node:
        reason = f"is of {credentials.owner}, not of node {config.node}"
        raise InvalidSettingError(str(config.tls.certificate), reason)
    log.info("certificates loaded", owner=str(credentials.owner), expires=credentials.current().expires)
    return credentials


async def _reload_on_signal(credentials: Credentials) -> None:
    """Check the certificates on SIGHUP. The next connection would do so as well, but an operator would not see the result."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            loaded = credentials.checked()
            log.info("certificates in use", owner=str(loaded.owner), expires=loaded.expires)


async def _run_console(
    node: Node,
    parts: Sequence[object],
    clock: Clock,
    credentials: Credentials | None,
    consoles: Sequence[Listener[Any]],
    probes: Sequence[Listener[Any]],
) -> None:
    from virtuallog_server.process.console import application  # late: HTTP is half of what a node imports

    try:
        console = application.open_console(node, parts, node.config.data, clock, credentials)
    except Exception:
        log.exception("the console cannot be opened")  # which the node survives
        return
    async with trio.open_nursery() as nursery:
        if consoles:
            nursery.start_soon(application.run_console, console, consoles)
        if probes:
            nursery.start_soon(application.run_probes, console, probes)


async def _open_zookeeper_ports(node: Node, clock: Clock) -> ZooKeeperPorts | None:
    """The ports for clients of the database. None if this node has no database."""
    if node.database is None:
        return None
    from virtuallog_server.process.zookeeper_ports import open_zookeeper_ports

    return await open_zookeeper_ports(node.database, clock)


async def _end_with_parent(scope: trio.CancelScope) -> None:
    async with trio.lowlevel.FdStream(0) as stdin:
        while await stdin.receive_some():
            pass
    log.info("ending", reason="the parent is gone")
    scope.cancel()

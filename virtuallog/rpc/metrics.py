"""Metrics of the RPC of a process. Values are added per call, per read and per piece sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import attrs

from virtuallog.contract import metrics
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.metrics import Counters, MetricFamily, MetricKind, Sample
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.methods import Methods


@attrs.define(eq=False)
class Traffic:
    """Bytes over some connections since the start."""

    received_bytes: int = 0
    sent_bytes: int = 0


@attrs.define(eq=False)
class RpcServerMetrics:
    """Counters of one server."""

    traffic: Traffic = attrs.field(factory=Traffic)
    accepted: int = 0
    """Connections that were admitted."""
    calls: defaultdict[type[Request[Any]], int] = attrs.field(factory=lambda: defaultdict(int))
    """Number of calls by request class."""
    errors: defaultdict[type[VirtualLogError], int] = attrs.field(factory=lambda: defaultdict(int))
    """Number of calls answered with an error, by error class."""

    def metrics(
        self, methods: Methods, connections: int, connections_max: int, held_bytes: int, held_bytes_max: int
    ) -> list[MetricFamily]:
        """Return the metrics as of now. Requests are labelled by the title of their method in
        `methods`."""
        calls = Counters("virtuallog_rpc_calls_total", "Calls that other processes have made here.", ("request",))
        for request, count in self.calls.items():
            calls.add(methods.by_request[request].title, amount=count)
        errors = Counters("virtuallog_rpc_errors_total", "Such calls that were answered with an error.", ("error",))
        for error, count in self.errors.items():
            errors.add(error.__name__, amount=count)
        return [
            calls.family(),
            errors.family(),
            metrics.counter("virtuallog_rpc_connections_accepted_total", "Connections let in.", self.accepted),
            metrics.counter(
                "virtuallog_rpc_server_received_bytes_total", "Received from callers.", self.traffic.received_bytes
            ),
            metrics.counter("virtuallog_rpc_server_sent_bytes_total", "Sent to callers.", self.traffic.sent_bytes),
            *metrics.queue_items("rpc_connections", connections, connections_max),
            *metrics.queue_bytes("rpc_held", held_bytes, held_bytes_max),
        ]


class MeasuredLink(Protocol):
    """A link to one other node, as its metrics see it."""

    node: NodeId
    traffic: Traffic
    sessions_ended: int

    @property
    def is_open(self) -> bool: ...

    @property
    def waiting_calls(self) -> int: ...

    @property
    def unsent_bytes(self) -> int: ...


def link_metrics(links: Iterable[MeasuredLink]) -> list[MetricFamily]:
    """Return the metrics of the links to all nodes that this process has called."""
    each = {str(link.node): link for link in links}
    return [
        metrics.gauges(
            "virtuallog_rpc_link_open",
            "1 while there is a connection to that node. An idle one that broke is opened at the next call.",
            "node",
            {node: link.is_open for node, link in each.items()},
        ),
        metrics.gauges(
            "virtuallog_rpc_link_waiting_calls",
            "Calls without an answer.",
            "node",
            {node: link.waiting_calls for node, link in each.items()},
        ),
        metrics.gauges(
            "virtuallog_rpc_link_unsent_bytes",
            "Bytes that the node has not taken.",
            "node",
            {node: link.unsent_bytes for node, link in each.items()},
        ),
        _counters(
            "virtuallog_rpc_link_ended_total",
            "Connections that ended, and attempts that failed.",
            {node: link.sessions_ended for node, link in each.items()},
        ),
        _counters(
            "virtuallog_rpc_link_received_bytes_total",
            "Received from that node.",
            {node: link.traffic.received_bytes for node, link in each.items()},
        ),
        _counters(
            "virtuallog_rpc_link_sent_bytes_total",
            "Sent to that node.",
            {node: link.traffic.sent_bytes for node, link in each.items()},
        ),
    ]


def _counters(name: str, meaning: str, values: Mapping[str, int]) -> MetricFamily:
    return MetricFamily(
        name, MetricKind.COUNTER, meaning, tuple(Sample({"node": node}, value) for node, value in values.items())
    )

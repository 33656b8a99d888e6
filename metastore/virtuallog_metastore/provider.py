"""The Paxos MetaStore as a pluggable kind (entry-point group `virtuallog.metastores`, name `paxos`)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Environment, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_metastore import diagnosis
from virtuallog_metastore.drivers.acceptor_driver import QUEUE_MAX, AcceptorDriver
from virtuallog_metastore.drivers.client import PaxosMetaStore
from virtuallog_metastore.metrics import AcceptorMetrics
from virtuallog_metastore.wire import ACCEPTOR


@attrs.frozen
class PaxosProvider:
    """A `MetaStoreProvider`: the register of Delos, OSDI'20, section 4.1. One object serves at most one node."""

    _meter: AcceptorMetrics = attrs.field(factory=AcceptorMetrics, init=False)

    def metrics(self) -> Sequence[MetricFamily]:
        """Return the metrics of this node's acceptor (`MetricsSource`)."""
        return self._meter.metrics(QUEUE_MAX)

    @property
    def interfaces(self) -> Sequence[Interface]:
        return (ACCEPTOR,)

    def open(self, members: Sequence[NodeId], environment: Environment) -> MetaStore:
        """Return a client that starts by asking `members`.

        One living node among them that knows any version is enough to find the newest one. Danger:
        `environment.random` must not be seeded alike in two lives of one client, as ballots are
        drawn from it.
        """
        return PaxosMetaStore.open(members, environment)

    async def serve(self, members: Sequence[NodeId], environment: NodeEnvironment) -> Handlers:
        """Start the acceptor of this node, on `environment.key_values("metastore")`.

        `members` counts on the very first start only: it becomes version 0, if it lists this node.
        A node that it does not list votes for nothing until it learns of a version that does. Every
        node of `members` must get the same list.

        An acceptor answers "nothing accepted" only about slots it cannot have forgotten. It votes
        only where `environment.is_seated` returns True: the register lists this data directory, and
        not a former one of the node.

        Raises:
            CorruptionError: the stored state is damaged.
            MalformedError: it is of a later format.
            WrongRecipientError: it is of another cluster.
        """
        return await AcceptorDriver.start(members, environment, self._meter)

    async def explain_register(
        self, members: Sequence[NodeId], environment: Environment
    ) -> tuple[bytes, Sequence[Evidence]]:
        """Gather the evidence of the members (`SupportsRegisterDiagnosis`)."""
        return await diagnosis.explain_register(members, environment)

"""Bugs in the recovery of a restarted node, and in its report to operators of the roles that are lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import trio

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Handlers, NodeEnvironment
from virtuallog_database.control.messages import DatabaseStatus
from virtuallog_database.identity import node_of
from virtuallog_server.config.config_file import spell_config
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.diagnosis.core import database as explaining
from virtuallog_server.diagnosis.core.database import DatabaseFacts
from virtuallog_server.diagnosis.core.finding import Finding
from virtuallog_server.node.health import NodeHealth
from virtuallog_server.node.node import Node
from virtuallog_simulation.world import cluster as simulated

STARTED: Final = ["a restart is what was started"]
COMES_BACK: Final = ["restarts serve what was served"]
UNSERVED: Final = ["unserved replicas are told"]
LOST: Final = ["lost roles are told"]

spelled_as_it_should = spell_config
served_as_it_should = Node._serve_database
failures_as_they_should = NodeHealth._failures
replica_as_it_should = explaining._replica


@mutant(spell_config, scenario="comeback", found_by=STARTED, published="69fede5", used_in=simulated)
def config_file_lacks_the_section(config: NodeConfig) -> str:
    """`[zookeeper]` is an option of the command line, and not written."""
    return spelled_as_it_should(attrs.evolve(config, zookeeper=None))


@mutant(spell_config, scenario="comeback", found_by=STARTED, used_in=simulated)
def config_file_has_the_port_only(config: NodeConfig) -> str:
    """The section is written with what `up` was told, and the rest is at its defaults after a restart."""
    section = config.zookeeper and ZooKeeperSettings(listen=config.zookeeper.listen)
    return spelled_as_it_should(attrs.evolve(config, zookeeper=section))


@mutant(Node._serve_database, scenario="comeback", found_by=COMES_BACK)
async def database_opens_in_new_directories_only(self: Node, environment: NodeEnvironment) -> Handlers:
    """A restart leaves the role closed, without a reason."""
    if not self.identity.fresh:
        await trio.sleep_forever()
    return await served_as_it_should(self, environment)


@mutant(NodeHealth._failures, scenario="comeback", found_by=LOST)
def database_that_is_off_is_no_failure(self: NodeHealth) -> list[str]:
    """A node without the section is well, even if its directory holds a replica."""
    told = failures_as_they_should(self)
    return told if self.config.zookeeper else [each for each in told if not each.startswith("database:")]


@mutant(NodeHealth._lost_roles, scenario="comeback", found_by=LOST)
def roles_are_what_the_config_says(self: NodeHealth) -> frozenset[str]:
    """The register, which loglets are planned by, is not compared."""
    return frozenset()


@mutant(DatabaseFacts.view, scenario="comeback", found_by=UNSERVED)
def view_is_of_those_that_answer(self: DatabaseFacts) -> Sequence[str]:
    """A table of the replicas that were reached, and it looks whole."""
    newest = max(self.replicas.values(), key=lambda status: status.cursor, default=DatabaseStatus(state=""))
    return [member.name for member in newest.members if node_of(member.name) in self.replicas]


@mutant(explaining._replica, scenario="comeback", found_by=UNSERVED)
def silent_server_is_taken_for_one_that_restarts(facts: DatabaseFacts, name: str) -> Iterator[Finding]:
    """It is said only where the node answers, and has no database."""
    if not isinstance(facts.answers.get(node_of(name)), UnavailableError):
        yield from replica_as_it_should(facts, name)


MUTANTS: Final[tuple[Mutant, ...]] = (
    config_file_lacks_the_section,
    config_file_has_the_port_only,
    database_opens_in_new_directories_only,
    database_that_is_off_is_no_failure,
    roles_are_what_the_config_says,
    view_is_of_those_that_answer,
    silent_server_is_taken_for_one_that_restarts,
)

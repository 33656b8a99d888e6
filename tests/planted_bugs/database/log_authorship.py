"""Bugs of who may append to the log of a database, and of what replicas make of the entries of others."""

from __future__ import annotations

from typing import Any, Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.errors import ForbiddenError, UnavailableError, VirtualLogError
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import entry as entries
from virtuallog_database.engines.core import player
from virtuallog_database.engines.core.entry import Entry, is_proposed
from virtuallog_server.database import ownership
from virtuallog_server.node import append_guard
from virtuallog_server.node.append_guard import AppendGuard

MEMBERS: Final = ["only members append"]


@mutant(AppendGuard.__call__, scenario="intruders", within=20, found_by=MEMBERS)
def what_a_lagging_node_knows_is_believed(self: AppendGuard, request: Any, caller: Principal, decide: Any) -> None:
    """The register that it has cached decides, also about segments of later ones."""
    log = self._find_log()
    if log is None or log.view.cached is None:
        decide(UnavailableError("this node is not part of a cluster yet"))
    else:
        decide(append_guard._refusal(log.view.cached, caller))


@mutant(Register.is_open_to_clients, scenario="intruders", within=20, found_by=MEMBERS)
def the_guard_is_put_and_nothing_is_sealed(self: Register) -> bool:
    """Nodes that do not know of it yet go on to take appends."""
    return False


@mutant(ownership.find_foreign, scenario="intruders", within=20, found_by=["the guard is refused for a reason"])
async def a_log_is_taken_from_the_program_that_uses_it(virtual_log: VirtualLog) -> LogPosition | None:
    """No look for entries of others before the guard is put."""
    return None


@mutant(
    append_guard._refusal, scenario="intruders", within=20,
    found_by=MEMBERS,
)  # fmt: skip
def the_guard_counts_from_the_next_version_on(register: Register, caller: Principal) -> VirtualLogError | None:
    """Off by some versions: it is in force once the chain has gone on twice."""
    late = register.is_guarded and register.version > register.guarded + 2
    return None if not late else ForbiddenError(append_guard.APPEND, str(caller), "admin")


@mutant(is_proposed, used_in=player, scenario="intruders", within=20,
        found_by=["members are not disturbed", "no unexpected error"])  # fmt: skip
def whatever_can_be_parsed_is_applied(entry: Entry) -> bool:
    """An entry that no engine has appended is applied if it can be parsed."""
    return True


@mutant(
    entries._check_later, scenario="intruders", within=20, found_by=["members are not disturbed", "no unexpected error"]
)
def two_letters_and_a_number_are_a_later_version(blob: bytes) -> None:
    """The checksum of later versions is not looked at."""


MUTANTS: Final[tuple[Mutant, ...]] = (
    what_a_lagging_node_knows_is_believed,
    the_guard_is_put_and_nothing_is_sealed,
    a_log_is_taken_from_the_program_that_uses_it,
    the_guard_counts_from_the_next_version_on,
    whatever_can_be_parsed_is_applied,
    two_letters_and_a_number_are_a_later_version,
)

"""Diagnosis of the register: the newest version of each member, and the one possibly in progress.

Sends only `Ask`, which promises nothing. So a version that some members have accepted, and that is
not known to be decided, stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virtuallog.admin.cluster_status import call_each
from virtuallog.contract.diagnosis import ANSWER_SECONDS, Evidence
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Environment, Outcome
from virtuallog.contract.types import NodeId
from virtuallog_metastore.messages import Ask, Decision, Standing


async def explain_register(members: Sequence[NodeId], environment: Environment) -> tuple[bytes, list[Evidence]]:
    """Gather the evidence of `SupportsRegisterDiagnosis.explain_register`."""
    known = await _ask(members, Ask(slot=0, after=0), environment)
    newest = newest_of(known)
    if newest is None:
        return b"", [of_member(member, known[member], None) for member in members]
    answer = [member for member in members if isinstance(known[member], Standing)]
    ahead = await _ask(answer, Ask(slot=newest.version + 1, after=newest.proposal.attempt), environment)
    return newest.proposal.value, [of_member(member, known[member], ahead.get(member)) for member in members]


async def _ask(members: Sequence[NodeId], question: Ask, environment: Environment) -> dict[NodeId, Outcome[Standing]]:
    return await call_each(environment.services, members, question, ANSWER_SECONDS)


def newest_of(answers: Mapping[NodeId, Outcome[Standing]]) -> Decision | None:
    """Return the newest decision that any member knows; None if no member knows one."""
    found = [answer.decision for answer in answers.values() if isinstance(answer, Standing)]
    return max((decision for decision in found if decision), default=None, key=lambda decision: decision.version)


def of_member(member: NodeId, known: Outcome[Standing], ahead: Outcome[Standing] | None) -> Evidence:
    """Make the evidence of one member: its newest version, and whether it accepted a value in the
    next one."""
    if isinstance(known, VirtualLogError):
        return Evidence(f"member {member}", {"node": member}, str(known))
    accepted = isinstance(ahead, Standing) and ahead.decision is None and ahead.accepted is not None
    return Evidence(f"member {member}", {"node": member, "version": known.known, "accepted": accepted})

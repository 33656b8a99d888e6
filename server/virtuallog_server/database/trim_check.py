"""Check before an operator's trim: a database on this log may still need the entries.

A log on which a database runs is trimmed by the database alone, up to where every replica of its view has a durable snapshot and
every hold allows (SOSP'21, section 4.2). An operator may only trim less than that. The register says if there is a database
(`virtuallog_server.database.ownership`); its living servers are asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virtuallog.admin.cluster_status import call_each
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.control.messages import Allowed, FindAllowedTrim

ASK_SECONDS: Final = 5.0
"""Timeout of a question. A replica answers once it has read the log up to its tail."""


async def check_trim(virtual_log: VirtualLog, position: LogPosition) -> None:
    """Return if the log may be trimmed up to `position`, as far as databases go.

    Raises:
        InvalidSettingError: a database needs some of it.
        UnavailableError: there is a database, and no server of it answers.
    """
    register = await virtual_log.view.refresh()  # a trim is for good, and waits for the MetaStore anyway
    if not register.database:
        return
    services = virtual_log.view.environment.services
    answers = await call_each(services, sorted(register.nodes), FindAllowedTrim(), ASK_SECONDS)
    allowed = [answer for answer in answers.values() if isinstance(answer, Allowed)]
    if not allowed:
        raise UnavailableError(f"a database may need it, and none of its servers answers: {_reasons(answers)}")
    for answer in allowed:
        if position > answer.position:
            reason = f"the database needs the log from {answer.position} on ({', '.join(answer.reasons)})"
            raise InvalidSettingError(f"position {position}", reason)


def _reasons(answers: Mapping[NodeId, Outcome[Allowed]]) -> str:
    return "; ".join(f"node {node}: {answer}" for node, answer in answers.items())

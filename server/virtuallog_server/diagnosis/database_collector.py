"""Collection of what the nodes say about the database."""

from __future__ import annotations

from virtuallog.admin.cluster_status import call_each
from virtuallog.contract.ports import Services
from virtuallog.contract.register import Register
from virtuallog_database.control.messages import GetDatabaseStatus
from virtuallog_server.diagnosis.core.database import DatabaseFacts


async def gather_database(services: Services, register: Register) -> DatabaseFacts:
    """Ask each node of the register for the status of the database."""
    return DatabaseFacts(
        register=register, answers=await call_each(services, sorted(register.nodes), GetDatabaseStatus())
    )

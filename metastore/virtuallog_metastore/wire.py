"""Binding of the MetaStore's messages to the methods of its Cap'n Proto interface."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.schema import load
from virtuallog_metastore.messages import Accept, Ask, Learn, Learned, Prepare, Receipt, Standing

SCHEMA: Final[Any] = load("virtuallog_metastore", "metastore.capnp")

ACCEPTOR: Final = Interface(
    schema=SCHEMA.Acceptor,
    methods=(
        Method(name="ask", request=Ask, reply=Standing, role=Role.CLIENT),
        Method(name="prepare", request=Prepare, reply=Standing, role=Role.ADMIN),
        Method(name="accept", request=Accept, reply=Receipt, role=Role.ADMIN),
        Method(name="learn", request=Learn, reply=Learned, role=Role.ADMIN),
    ),
)

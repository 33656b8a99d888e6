"""Cap'n Proto interface of a database's server: a method for each message."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.schema import load
from virtuallog_database.control.messages import (
    Allowed,
    CompareChecksums,
    Compared,
    DatabaseStatus,
    Done,
    EjectReplica,
    FindAllowedTrim,
    GetDatabaseStatus,
    PlaceHold,
    ReleaseHold,
    SetEngine,
    WriteRaw,
)
from virtuallog_database.control.tree_messages import (
    ChildrenReport,
    ListChildren,
    ListSessions,
    ReadZnode,
    SessionsReport,
    ZnodeReport,
)
from virtuallog_database.snapshots.wire import SNAPSHOTS

DATABASE: Final = Interface(
    schema=load("virtuallog_database.control", "database.capnp").Database,
    methods=(
        Method(name="getDatabaseStatus", request=GetDatabaseStatus, reply=DatabaseStatus, role=Role.CLIENT),
        Method(name="findAllowedTrim", request=FindAllowedTrim, reply=Allowed, role=Role.CLIENT),
        Method(name="placeHold", request=PlaceHold, reply=Done),
        Method(name="releaseHold", request=ReleaseHold, reply=Done),
        Method(name="compareChecksums", request=CompareChecksums, reply=Compared),
        Method(name="writeRaw", request=WriteRaw, reply=Done),
        Method(name="setEngine", request=SetEngine, reply=Done),
        Method(name="ejectReplica", request=EjectReplica, reply=Done),
        Method(
            name="readZnode", request=ReadZnode, reply=ZnodeReport, role=Role.CLIENT, distrusted={"as_admin": False}
        ),
        Method(
            name="listChildren",
            request=ListChildren,
            reply=ChildrenReport,
            role=Role.CLIENT,
            distrusted={"as_admin": False},
        ),
        Method(name="listSessions", request=ListSessions, reply=SessionsReport),
    ),
    role=Role.ADMIN,
)

INTERFACES: Final = (SNAPSHOTS, DATABASE)
"""Interfaces that a database role serves."""

"""Pairs the messages of the MetaStore with the methods of its Cap'n Proto interface."""

from __future__ import annotations

from typing import Any, Final

from metastore.messages import Accept, Ask, Learn, Learned, Prepare, Receipt, Standing
from virtuallog.rpc.interface import Interface, Method
from virtuallog.rpc.schema import load

SCHEMA: Final[Any] = load("metastore", "metastore.capnp")

ACCEPTOR: Final = Interface(
    schema=SCHEMA.Acceptor,
    methods=(
        Method(name="ask", request=Ask, reply=Standing),
        Method(name="prepare", request=Prepare, reply=Standing),
        Method(name="accept", request=Accept, reply=Receipt),
        Method(name="learn", request=Learn, reply=Learned),
    ),
)

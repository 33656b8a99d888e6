"""Finds the loglet kinds and MetaStores that are installed: our own code names none, so strangers can add theirs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Final

from virtuallog.api import LogletProvider, MetaStoreProvider
from virtuallog.composite import compose
from virtuallog.control import CONTROL
from virtuallog.errors import UnknownKindError
from virtuallog.membership import MEMBERSHIP
from virtuallog.rpc.interface import Interface

LOGLETS: Final = "virtuallog.loglets"
METASTORES: Final = "virtuallog.metastores"
METASTORE: Final = "paxos"


def loglet_providers() -> dict[str, LogletProvider]:
    """A new provider of each installed kind, by name."""
    found = sorted(entry_points(group=LOGLETS), key=lambda entry: entry.name)
    made = [entry.load()() for entry in found]
    providers: dict[str, LogletProvider] = {provider.kind: provider for provider in made}
    compose(providers)
    return providers


def metastore_provider(kind: str = METASTORE) -> MetaStoreProvider:
    """A new provider of the MetaStore.

    Raises:
        UnknownKindError: it is not installed.
    """
    for found in entry_points(group=METASTORES):
        if found.name == kind:
            made: MetaStoreProvider = found.load()()
            return made
    raise UnknownKindError(kind, ", ".join(found.name for found in entry_points(group=METASTORES)))


def all_interfaces(providers: Mapping[str, LogletProvider], metastore: MetaStoreProvider) -> list[Interface]:
    """The wire form of every request that a node may be sent."""
    loglets = [interface for provider in providers.values() for interface in provider.interfaces]
    return [CONTROL, MEMBERSHIP, *metastore.interfaces, *loglets]

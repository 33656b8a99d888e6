"""Finds the loglet kinds and MetaStores that are installed: our own code names none, so strangers can add theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Final

from virtuallog.admin.control import CONTROL
from virtuallog.admin.membership import MEMBERSHIP
from virtuallog.contract.errors import UnknownKindError
from virtuallog.contract.interface import Interface
from virtuallog.contract.metastore import MetaStoreProvider
from virtuallog.contract.provider import LogletProvider, compose

LOGLETS_GROUP: Final = "virtuallog.loglets"
METASTORES_GROUP: Final = "virtuallog.metastores"
METASTORE_KIND: Final = "paxos"


def loglet_kinds() -> tuple[str, ...]:
    """The names of the installed kinds of loglets, in alphabetical order. Imports none of them."""
    return tuple(sorted(entry.name for entry in entry_points(group=LOGLETS_GROUP)))


def loglet_maker(kind: str) -> Callable[[], LogletProvider]:
    """What makes a provider of an installed kind: its class, as a rule.

    Raises:
        UnknownKindError: the kind is not installed.
    """
    for found in entry_points(group=LOGLETS_GROUP):
        if found.name == kind:
            made: Callable[[], LogletProvider] = found.load()
            return made
    raise UnknownKindError(kind, ", ".join(loglet_kinds()))


def loglet_providers() -> dict[str, LogletProvider]:
    """A new provider of each installed kind, by name."""
    found = sorted(entry_points(group=LOGLETS_GROUP), key=lambda entry: entry.name)
    made = [entry.load()() for entry in found]
    providers: dict[str, LogletProvider] = {provider.kind: provider for provider in made}
    compose(providers)
    return providers


def metastore_provider(kind: str = METASTORE_KIND) -> MetaStoreProvider:
    """A new provider of the MetaStore.

    Raises:
        UnknownKindError: it is not installed.
    """
    for found in entry_points(group=METASTORES_GROUP):
        if found.name == kind:
            made: MetaStoreProvider = found.load()()
            return made
    raise UnknownKindError(kind, ", ".join(found.name for found in entry_points(group=METASTORES_GROUP)))


def all_interfaces(providers: Mapping[str, LogletProvider], metastore: MetaStoreProvider) -> list[Interface]:
    """The wire form of every request that a node may be sent."""
    loglets = [interface for provider in providers.values() for interface in provider.interfaces]
    return [CONTROL, MEMBERSHIP, *metastore.interfaces, *loglets]

"""Installed loglet kinds and MetaStores, found through entry points (one line in a package's pyproject.toml).

No code of this project names a kind, so other packages can add their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Final

import attrs

from virtuallog.admin.control import CONTROL
from virtuallog.admin.membership import MEMBERSHIP
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import UnknownKindError
from virtuallog.contract.metastore import MetaStoreProvider
from virtuallog.contract.provider import CompositeProvider, LogletProvider, SupportsPresentation, compose
from virtuallog.runtime import log

LOGLETS_GROUP: Final = "virtuallog.loglets"
METASTORES_GROUP: Final = "virtuallog.metastores"
METASTORE_KIND: Final = "paxos"
"""The MetaStore in use."""


def loglet_kinds() -> tuple[str, ...]:
    """The names of the installed kinds of loglets, in alphabetical order. Imports none of them."""
    return tuple(sorted(entry.name for entry in entry_points(group=LOGLETS_GROUP)))


def loglet_maker(kind: str) -> Callable[[], LogletProvider]:
    """Return the callable that makes a provider of an installed kind: its class, as a rule.

    Raises:
        UnknownKindError: the kind is not installed.
    """
    for found in entry_points(group=LOGLETS_GROUP):
        if found.name == kind:
            made: Callable[[], LogletProvider] = found.load()
            return made
    raise UnknownKindError(kind, ", ".join(loglet_kinds()))


@attrs.frozen
class Presentation:
    """How a kind of loglets is shown and tried; see `SupportsPresentation`."""

    color: str
    trials: Mapping[str, Mapping[str, str]]
    crash_area: str


def presentations() -> dict[str, Presentation]:
    """Return the presentation of each installed kind that offers one.

    A kind whose provider cannot be imported or made is left out: it must not stop a page or the simulator.
    """
    found = {}
    for kind in loglet_kinds():
        try:
            provider = loglet_maker(kind)()
            if isinstance(provider, SupportsPresentation):
                trials = {name: dict(settings) for name, settings in provider.trials.items()}
                found[kind] = Presentation(str(provider.color), trials, str(provider.crash_area))
        except Exception as error:  # foreign code
            log.warning("a kind of loglets cannot be shown", kind=kind, error=f"{type(error).__name__}: {error}")
    return found


def loglet_providers() -> dict[str, LogletProvider]:
    """Make a provider of each installed kind; returns them by name."""
    found = sorted(entry_points(group=LOGLETS_GROUP), key=lambda entry: entry.name)
    made = [entry.load()() for entry in found]
    providers: dict[str, LogletProvider] = {provider.kind: provider for provider in made}
    compose(providers)
    return providers


class KindsOnDemand(Mapping[str, LogletProvider]):
    """Providers of the installed kinds, each imported and made when it is first asked for.

    For a program that uses one kind or none, and ends soon.

    Args:
        on_made: called with each new provider.
    """

    def __init__(self, on_made: Callable[[LogletProvider], None] = lambda provider: None) -> None:
        self._on_made = on_made
        self._kinds = loglet_kinds()
        self._made: dict[str, LogletProvider] = {}

    def __getitem__(self, kind: str) -> LogletProvider:
        if kind not in self._made:
            if kind not in self:
                raise KeyError(kind)
            provider = loglet_maker(kind)()
            if isinstance(provider, CompositeProvider):
                provider.over(self)
            self._made[kind] = provider
            self._on_made(provider)
        return self._made[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def metastore_provider(kind: str = METASTORE_KIND) -> MetaStoreProvider:
    """Make the provider of a MetaStore.

    Raises:
        UnknownKindError: no MetaStore of that name is installed.
    """
    for found in entry_points(group=METASTORES_GROUP):
        if found.name == kind:
            made: MetaStoreProvider = found.load()()
            return made
    raise UnknownKindError(kind, ", ".join(found.name for found in entry_points(group=METASTORES_GROUP)))


def all_interfaces(providers: Mapping[str, LogletProvider], metastore: MetaStoreProvider) -> list[Interface]:
    """Interfaces of all requests that a node may get."""
    loglets = [interface for provider in providers.values() for interface in provider.interfaces]
    return [CONTROL, MEMBERSHIP, *metastore.interfaces, *loglets]

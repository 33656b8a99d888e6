"""Kinds of loglets that consist of loglets of other kinds (Delos, OSDI'20, section 4.2.3): they open these through the providers
that everybody else uses, so that one connection, one cache and one observer see all of it.

One level deep: the loglets below must be of kinds that are not composite themselves. More would buy nothing, and make every rule
about them recursive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from virtuallog.api import LogletProvider
from virtuallog.errors import UnknownKindError, UnsupportedError


@runtime_checkable
class CompositeProvider(Protocol):
    """A `LogletProvider` whose loglets consist of others."""

    def over(self, providers: Mapping[str, LogletProvider]) -> None:
        """Open loglets of other kinds through these from now on. Called before anything else; a later call replaces them."""
        ...


def compose(providers: Mapping[str, LogletProvider]) -> None:
    """Tell each composite kind among these of all of them. Whoever makes a mapping of providers of his own calls this."""
    for provider in providers.values():
        if isinstance(provider, CompositeProvider):
            provider.over(providers)


def inner(providers: Mapping[str, LogletProvider], kind: str) -> LogletProvider:
    """The provider of a kind that others may consist of.

    Raises:
        UnknownKindError: it is not installed.
        UnsupportedError: it is composite itself.
    """
    provider = providers.get(kind)
    if provider is None:
        raise UnknownKindError(kind, ", ".join(sorted(providers)))
    if isinstance(provider, CompositeProvider):
        raise UnsupportedError(f"a loglet cannot consist of {kind} loglets, which consist of others themselves")
    return provider

"""Where a segment is, in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virtuallog.api import LogletProvider
from virtuallog.chain import Segment
from virtuallog.errors import VirtualLogError
from virtuallog.replicated import Placement, replicated


def where(segment: Segment, providers: Mapping[str, LogletProvider]) -> str:
    """Which nodes order and keep it, or that it is elsewhere."""
    provider = providers.get(segment.kind)
    try:
        kept = replicated(provider)
        return _nodes(kept.placement(segment.config)) if kept else "files, on no node"
    except VirtualLogError:
        return "unreadable"


def details(segment: Segment, providers: Mapping[str, LogletProvider]) -> list[tuple[str, str]]:
    """Its id and whatever its kind tells about its config."""
    provider = providers.get(segment.kind)
    try:
        told = dict(provider.describe(segment.config)) if provider else {}
    except VirtualLogError as error:
        told = {"unreadable": str(error)}
    return [("segment", str(segment.id)), *((name, _words(value)) for name, value in told.items())]


def _nodes(placement: Placement) -> str:
    servers = f"nodes {_words(placement.servers)}"
    orderers = sorted(placement.orders)
    if not orderers:
        return servers
    return f"sequencer{'s' if len(orderers) > 1 else ''} {_words(orderers)}; {servers}"


def _words(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return ", ".join(map(_words, value))
    return str(value)

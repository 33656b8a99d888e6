"""Which loglets the nodes keep for a segment, and who lets go of the rest: what a kind says of itself, if it is not the plain case.

Plain: the nodes keep one loglet for a segment, under the segment's id. Other kinds say so with `KeepsLoglets`: a closed loglet
that was moved kept its id while its segment got a new one, a striped one consists of several, an archive keeps the loglet that
it replaced for a while. What nodes may forget, and what they answer when they are asked for a loglet that they do not know, both
go by `kept_by`: a node that took another view would drop what is still needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias, runtime_checkable

import structlog

from virtuallog.api import LogletProvider
from virtuallog.chain import Chain, Segment, SegmentId
from virtuallog.errors import MalformedError
from virtuallog.ports import Environment

Kept: TypeAlias = Mapping[SegmentId, tuple[str, bytes]]
"""Loglets by the ids that nodes know them by, each with its kind and config."""

log = structlog.get_logger(__name__)


@runtime_checkable
class KeepsLoglets(Protocol):
    """A `LogletProvider` whose segments rest on other loglets than the one of their own id. Pure."""

    def loglets(self, segment: SegmentId, config: bytes) -> Kept:
        """What the segment rests on; empty: no loglet at all. Also one that is kept elsewhere than on nodes is among it: by this
        others know that an archive still has it as its hot copy, and that it left the chain, so that it can be freed
        (`ReleasedElsewhere`). Nodes pass over ids that they keep nothing of.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class ReleasesLater(Protocol):
    """A `LogletProvider` whose segments keep something for a time that is in their config. Pure."""

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        """The config without what is kept no longer, once its time is over; None: there is nothing to release, or it is too early.

        Args:
            config: of a closed segment.
            now_ms: wall clock, milliseconds since the epoch. It may jump: what is kept must not be needed for safety.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class ReleasedElsewhere(Protocol):
    """A `LogletProvider` whose loglets take room somewhere else than on nodes, which therefore do not free it by themselves."""

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        """Free what a loglet took that has left the chain for good, and was sealed before.

        Called some seconds later, by several nodes one after the other, while they live: it must be safe to repeat, and to do at the
        same time. What a crash prevents is not made up for. Somebody with an old chain may still come at any time, and must
        neither find nor make an empty loglet that takes appends: of a loglet that is freed, enough stays to refuse them.

        Raises:
            UnavailableError: unknown; a part may have been freed.
        """
        ...


@runtime_checkable
class NamesLoglets(Protocol):
    """A `LogletProvider` that can tell in a config whose entries it means. Pure.

    A segment that is put under a closed one gets a new id, and a loglet usually has the id of its segment. Kinds that are copies
    on nodes do this with `ReplicatedProvider.move`.
    """

    def named(self, segment: SegmentId, config: bytes) -> bytes:
        """The config of the same loglet for a segment of any other id.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


def kept_by(segment: Segment, providers: Mapping[str, LogletProvider]) -> Kept | None:
    """What nodes keep for a segment. None: nobody here can tell, as its kind is not installed or its config not readable."""
    provider = providers.get(segment.kind)
    if provider is None:
        return None
    if not isinstance(provider, KeepsLoglets):
        return {segment.id: (segment.kind, segment.config)}
    try:
        return provider.loglets(segment.id, segment.config)
    except MalformedError as error:  # put there by hand
        log.warning("config of a segment", segment=str(segment.id), error=str(error))
        return None


def no_longer_kept(before: Chain, after: Chain, providers: Mapping[str, LogletProvider]) -> Kept:
    """The loglets that a chain rests on and a later one does not; empty, if nobody here can tell what the later one rests on."""
    remaining = [kept_by(segment, providers) for segment in after.segments]
    if None in remaining:
        return {}
    live = {loglet for kept in remaining for loglet in kept or ()}
    former = [kept_by(segment, providers) or {} for segment in before.segments]
    return {loglet: config for kept in former for loglet, config in kept.items() if loglet not in live}


def find_kept(chain: Chain, wanted: SegmentId, providers: Mapping[str, LogletProvider]) -> tuple[str, bytes] | None:
    """Kind and config of the segment that has this id, or else of the loglet that nodes know by it; None: there is none."""
    segment = chain.find(wanted)
    if segment is not None:
        return segment.kind, segment.config
    kept = (kept_by(segment, providers) or {} for segment in chain.segments)
    return next((loglets[wanted] for loglets in kept if wanted in loglets), None)

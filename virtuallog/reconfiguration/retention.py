"""Which loglets the nodes keep for a segment, and who lets go of the rest: what a kind says of itself, if it is not the plain case.

Plain: the nodes keep one loglet for a segment, under the segment's id. Other kinds say so with `SupportsRetention`: a closed loglet
that was moved kept its id while its segment got a new one, a striped one consists of several, an archive keeps the loglet that
it replaced for a while. What nodes may forget, and what they answer when they are asked for a loglet that they do not know, both
go by `retained_loglets`: a node that took another view would drop what is still needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.provider import LogletProvider, RetainedLoglets, SupportsRetention

log = structlog.get_logger(__name__)


def retained_loglets(segment: Segment, providers: Mapping[str, LogletProvider]) -> RetainedLoglets | None:
    """What nodes keep for a segment. None: nobody here can tell, as its kind is not installed or its config not readable."""
    provider = providers.get(segment.kind)
    if provider is None:
        return None
    if not isinstance(provider, SupportsRetention):
        return {segment.id: (segment.kind, segment.config)}
    try:
        return provider.loglets(segment.id, segment.config)
    except MalformedError as error:  # put there by hand
        log.warning("config of a segment", segment=str(segment.id), error=str(error))
        return None


def released_loglets(before: Chain, after: Chain, providers: Mapping[str, LogletProvider]) -> RetainedLoglets:
    """The loglets that a chain rests on and a later one does not; empty, if nobody here can tell what the later one rests on."""
    remaining = [retained_loglets(segment, providers) for segment in after.segments]
    if None in remaining:
        return {}
    live = {loglet for kept in remaining for loglet in kept or ()}
    former = [retained_loglets(segment, providers) or {} for segment in before.segments]
    return {loglet: config for kept in former for loglet, config in kept.items() if loglet not in live}


def find_retained(chain: Chain, wanted: SegmentId, providers: Mapping[str, LogletProvider]) -> tuple[str, bytes] | None:
    """Kind and config of the segment that has this id, or else of the loglet that nodes know by it; None: there is none."""
    segment = chain.find(wanted)
    if segment is not None:
        return segment.kind, segment.config
    kept = (retained_loglets(segment, providers) or {} for segment in chain.segments)
    return next((loglets[wanted] for loglets in kept if wanted in loglets), None)

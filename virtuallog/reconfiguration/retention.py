"""Retention: the loglets that nodes keep for the segments of a chain, and those that may be garbage-collected.

In the plain case nodes keep one loglet for a segment, under the id of the segment. Other kinds offer
`SupportsRetention`: a closed loglet that was moved keeps its id while its segment gets a new one, a striped
one consists of several, an archive keeps the loglet that it replaced for a while. `retained_loglets` decides
both what nodes may drop and what they answer for a loglet that they do not know. A node that went by another
rule would drop what is still needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.provider import LogletProvider, RetainedLoglets, SupportsRetention
from virtuallog.runtime import log


def retained_loglets(segment: Segment, providers: Mapping[str, LogletProvider]) -> RetainedLoglets | None:
    """Loglets that nodes keep for a segment.

    None if that is unknown here, as its kind is not installed or its config cannot be read.
    """
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
    """Loglets that a chain needs and a later chain does not; empty if the needs of the later one are unknown here."""
    remaining = [retained_loglets(segment, providers) for segment in after.segments]
    if None in remaining:
        return {}
    live = {loglet for kept in remaining for loglet in kept or ()}
    former = [retained_loglets(segment, providers) or {} for segment in before.segments]
    return {loglet: config for kept in former for loglet, config in kept.items() if loglet not in live}


def find_retained(chain: Chain, wanted: SegmentId, providers: Mapping[str, LogletProvider]) -> tuple[str, bytes] | None:
    """Kind and config of the segment with this id, or of the loglet that nodes know by it; None if there is neither."""
    segment = chain.find(wanted)
    if segment is not None:
        return segment.kind, segment.config
    kept = (retained_loglets(segment, providers) or {} for segment in chain.segments)
    return next((loglets[wanted] for loglets in kept if wanted in loglets), None)

"""From a picture to findings: everything that can be said about it, by topic.                                        Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from virtuallog_server.explaining import appending, chaining, database, sealing, tailing, trimming
from virtuallog_server.explaining.finding import Finding, Topic
from virtuallog_server.explaining.picture import Picture

_BY_TOPIC: Final[Mapping[Topic, Callable[[Picture], list[Finding]]]] = {
    Topic.CHAIN: chaining.findings,
    Topic.APPEND: appending.findings,
    Topic.TAIL: tailing.findings,
    Topic.SEAL: sealing.findings,
    Topic.TRIM: trimming.findings,
    Topic.DATABASE: lambda picture: database.findings(picture.database),
}


def conclude(picture: Picture) -> list[Finding]:
    """All findings, in the order of the topics."""
    return [finding for topic in Topic for finding in _BY_TOPIC[topic](picture)]

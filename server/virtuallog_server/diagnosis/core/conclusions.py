"""All conclusions from the evidence, by topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from virtuallog_server.diagnosis.core import append, chain, database, seal, tail, trim
from virtuallog_server.diagnosis.core.evidence import LogEvidence
from virtuallog_server.diagnosis.core.finding import Finding, Topic

_BY_TOPIC: Final[Mapping[Topic, Callable[[LogEvidence], list[Finding]]]] = {
    Topic.CHAIN: chain.findings,
    Topic.APPEND: append.findings,
    Topic.TAIL: tail.findings,
    Topic.SEAL: seal.findings,
    Topic.TRIM: trim.findings,
    Topic.DATABASE: lambda log: database.findings(log.database),
}


def conclude(log: LogEvidence) -> list[Finding]:
    """All findings, in the order of the topics."""
    return [finding for topic in Topic for finding in _BY_TOPIC[topic](log)]

"""Findings of an audit: the result of each check, and the reason if it failed."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pyspark_virtuallog.audit.core.evidence import Evidence


class Severity(enum.Enum):
    """Severity of a finding."""

    VIOLATION = "violation"
    """The log breaks a promise, or has lost something: an operator must look at it."""
    NOTABLE = "notable"
    """Allowed, but worth knowing."""
    FINE = "fine"


@attrs.frozen(kw_only=True)
class Finding:
    """Result of one check."""

    check: str
    severity: Severity
    text: str
    count: int = 0
    """Number of faults; 0 if there are none."""
    examples: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class ChainSegment:
    """A segment as the chain had it when the audit began."""

    segment: str
    loglet: str
    start: int
    stop: int | None
    """End of the segment. None if it took appends."""


@attrs.frozen(kw_only=True)
class ChainHistory:
    """The chain when the audit began."""

    version: int
    segments: Sequence[ChainSegment]


@attrs.frozen(kw_only=True)
class Findings:
    """Result of an audit of [start, stop)."""

    cluster: str
    """Cluster id in hexadecimal digits."""
    start: int
    stop: int
    findings: Sequence[Finding]
    chain: ChainHistory
    evidence: Evidence

    @property
    def violations(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity is Severity.VIOLATION]

    @property
    def entries(self) -> int:
        return sum(segment.entries for segment in self.evidence.segments)

    @property
    def bytes(self) -> int:
        """Bytes of all payloads."""
        return sum(segment.bytes for segment in self.evidence.segments)

    def plain(self) -> Mapping[str, Any]:
        """Plain values for JSON."""
        found = attrs.asdict(self, value_serializer=_plain, filter=lambda field, _: field.name != "pieces")
        return {"entries": self.entries, "bytes": self.bytes, "violations": len(self.violations), **found}


def _plain(_instance: Any, _field: Any, value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value

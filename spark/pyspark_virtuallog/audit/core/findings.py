"""What an audit finds: for each check whether the log has passed it, and why not.                                   Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pyspark_virtuallog.audit.core.evidence import Evidence


class Severity(enum.Enum):
    """How bad it is."""

    VIOLATION = "violation"
    """The log breaks a promise, or has lost something: somebody must look at it."""
    NOTABLE = "notable"
    """Allowed, but worth knowing."""
    FINE = "fine"


@attrs.frozen(kw_only=True)
class Finding:
    """What one check says."""

    check: str
    severity: Severity
    text: str
    count: int = 0
    """How often, if it is not fine."""
    examples: Sequence[str] = ()


@attrs.frozen(kw_only=True)
class ChainSegment:
    """A segment as the chain had it when the audit began."""

    segment: str
    loglet: str
    start: int
    stop: int | None
    """None: it took appends."""


@attrs.frozen(kw_only=True)
class ChainHistory:
    """The chain when the audit began."""

    version: int
    segments: Sequence[ChainSegment]


@attrs.frozen(kw_only=True)
class Findings:
    """The result of an audit of [start, stop)."""

    cluster: str
    """Its id in hexadecimal."""
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
        """Of all payloads."""
        return sum(segment.bytes for segment in self.evidence.segments)

    def plain(self) -> Mapping[str, Any]:
        """For JSON."""
        found = attrs.asdict(self, value_serializer=_plain, filter=lambda field, _: field.name != "pieces")
        return {"entries": self.entries, "bytes": self.bytes, "violations": len(self.violations), **found}


def _plain(_instance: Any, _field: Any, value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value

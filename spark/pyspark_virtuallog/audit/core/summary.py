"""Summary of an audit in some lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark_virtuallog.audit.core.findings import Finding, Findings, Severity

_MARKS: Final = {Severity.VIOLATION: "WRONG", Severity.NOTABLE: "note ", Severity.FINE: "ok   "}
_EXAMPLES_MAX: Final = 5
"""Examples of each finding; the page and the JSON have more."""


def headline(findings: Findings) -> str:
    """The result in a sentence."""
    wrong = len(findings.violations)
    told = f"{findings.entries:,} entries in [{findings.start}, {findings.stop})"
    return (
        f"{told}: {wrong} of {len(findings.findings)} checks found the log wrong"
        if wrong
        else f"{told}: the log is as it should be"
    )


def summary(findings: Findings) -> Iterator[str]:
    """Lines of the summary, the worst finding first."""
    for finding in findings.findings:
        yield from _lines(finding)
    yield headline(findings)


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{_MARKS[finding.severity]}  {finding.text}"
    yield from (f"       {example}" for example in finding.examples[:_EXAMPLES_MAX])
    if len(finding.examples) > _EXAMPLES_MAX:
        yield "       ..."

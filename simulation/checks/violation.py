"""What a checker finds (`virtuallog.testing.violation`: shipped, as the conformance suites have checkers too)."""

from __future__ import annotations

from virtuallog.testing.violation import Check, Violation, once, proof

__all__ = ["Check", "Violation", "once", "proof"]

"""Options that narrow a run, set by hand or by the search for a smaller run that still fails.

Options remove and never add: the rest is drawn from the seed as if nothing had been removed, as
every fault class and every client has a source of randomness of its own.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Options:
    """None means: as the seed draws it."""

    faults: tuple[str, ...] | None = None
    """Classes of faults that may be active, see docs/internals/faults.md."""
    loglets: tuple[str, ...] | None = None
    """Kinds of loglets that may be in the chain; the first one is the kind of the first loglet."""
    operations: int | None = None
    """Most operations of each client."""
    seconds: float | None = None
    """Most simulated seconds of load and faults."""
    transport: str | None = None
    """Transport between processes, in stories that support both: "calls" or "streams"."""

    def allows_fault(self, name: str) -> bool:
        return self.faults is None or name in self.faults

    def allows_loglet(self, kind: str) -> bool:
        return self.loglets is None or kind in self.loglets

    @property
    def arguments(self) -> str:
        """These options as arguments of `virtuallog simulate`."""
        told = {
            "--faults": None if self.faults is None else ",".join(map(cli_word, self.faults)) or "none",
            "--loglets": None if self.loglets is None else ",".join(map(cli_word, self.loglets)),
            "--operations": self.operations,
            "--seconds": None if self.seconds is None else f"{self.seconds:g}",
            "--transport": self.transport,
        }
        return " ".join(f"{name} {value}" for name, value in told.items() if value is not None)


def cli_word(name: str) -> str:
    """A name as one word of a command line."""
    return name.replace(" ", "-")

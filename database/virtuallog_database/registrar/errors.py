"""Errors of a registrar."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog.contract.errors import TerminalError


@attrs.define
class NotRecoveredError(TerminalError):
    """An operation was offered before `Registrar.recover` was called. Nothing has been done."""

    def __str__(self) -> str:
        return "the registrar has not been recovered"


@attrs.define
class DeposedError(TerminalError):
    """Another owner has recovered the registry, or it was expunged: this registrar can write nothing any more. Make a new one to take over again."""

    name: str

    def __str__(self) -> str:
        return f"the registry '{self.name}' is not this owner's any more: it has another one, or was expunged"


@attrs.define
class RegistrarAbortedError(TerminalError):
    """A store had no answer in time, or its storage failed: its outcome is unknown, and this registrar is used up, as in Mesos. Make a new
    one: it finds out."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"the registrar of '{self.name}' has given up: {self.reason}"


@attrs.define
class EmptyRegistryError(TerminalError):
    """There is no registry where one was expected: the wrong name or storage, or its data is lost. Nothing has been written."""

    name: str

    def __str__(self) -> str:
        return f"there is no registry '{self.name}', and one was expected (EmptyPolicy.FAIL)"


@attrs.define
class MissingCapabilitiesError(TerminalError):
    """The registry was written by a program with capabilities that this one lacks. Nothing has been written."""

    missing: Sequence[str]

    def __str__(self) -> str:
        return f"the registry needs a program with {', '.join(self.missing)}"

"""The history of a ledger: what a client was told, line by line, and what must then be in the tree.

Every client program does the same work below a path ROOT, until its stdin is closed, with two sessions, and prints each step as JSON:

    presence/alive     ephemeral, made once at the beginning
    entries/e-SEQ      for n = 1, 2, ...: a sequential znode with the data n
    register, mirror   after each acknowledged entry: a multi that checks the version of `register` and sets both to n
    a second session watches `register`, and reads it at each event

    {"event": "ready", "session": "HEX"}       connected; `alive` is there
    {"op": "create", "n": 7, "begun": MS, "ended": MS, "outcome": "ok" | "unknown", "path": "..."}
    {"op": "multi", "n": 7, "begun": MS, "ended": MS, "outcome": "ok" | "unknown", "version": 7}
    {"op": "get", "n": 6, "version": 6}        after an unknown multi, once an entry was acknowledged: what is there
    {"event": "seen", "n": 7, "version": 7}    by the second session
    {"event": "refused", ...}, {"event": "expired"}    never
    {"event": "end"}                           the second session has seen the last version; the first one is closed

Nothing is done twice: an outcome that is unknown stays so. A read by the same session after an acknowledged create shows what became of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import attrs

Line = Mapping[str, Any]
STEPS: Final = ("create", "multi")


@attrs.frozen(kw_only=True)
class Found:
    """What another client finds below ROOT afterwards."""

    entries: Mapping[str, int]
    """Path -> data of each child of `entries`."""
    register: int
    mirror: int
    version: int
    """Version of `register`."""
    mirror_version: int
    present: Sequence[str]
    """Children of `presence`."""
    changes: int
    """The cversion of `presence`: a create and a delete of a child count one each."""


@attrs.define(eq=False)
class LedgerHistory:
    """The lines of one program, in its order."""

    lines: list[Line] = attrs.field(factory=list)

    def add(self, text: str) -> None:
        self.lines.append(json.loads(text))

    def steps(self, operation: str, outcome: str) -> list[Line]:
        """Creates, or multis, with this outcome."""
        return [line for line in self.lines if line.get("op") == operation and line["outcome"] == outcome]

    def events(self, name: str) -> list[Line]:
        return [line for line in self.lines if line.get("event") == name]

    @property
    def acknowledged(self) -> list[Line]:
        """All writes that were acknowledged, in order."""
        return [line for line in self.lines if line.get("op") in STEPS and line["outcome"] == "ok"]

    @property
    def unknown(self) -> int:
        """Number of writes without an answer."""
        return sum(len(self.steps(operation, "unknown")) for operation in STEPS)

    @property
    def times(self) -> list[int]:
        """Time of each acknowledgement, in milliseconds since 1970."""
        return [line["ended"] for line in self.acknowledged]


def judge(history: LedgerHistory, found: Found, *, killed: bool = False) -> Iterator[str]:
    """A sentence for each broken promise.

    Args:
        history: of a program that has ended.
        found: after its end, and after the end of its session.
        killed: True if the program was killed: then its last write may be missing in the history, but not in the tree.
    """
    for line in history.lines:
        if line.get("event") in {"refused", "expired"}:
            yield f"the client was told {line}"
    yield from _judge_entries(history, found, killed)
    yield from _judge_register(history, found, killed)
    yield from _judge_sight(history, found, killed)
    if found.present or found.changes != 2:
        yield f"the ephemeral came and went {found.changes} times, and {list(found.present)} is left"


def _judge_entries(history: LedgerHistory, found: Found, killed: bool) -> Iterator[str]:
    acknowledged = {line["path"]: line["n"] for line in history.steps("create", "ok")}
    for path, number in acknowledged.items():
        if found.entries.get(path) != number:
            yield f"lost: {path} was acknowledged with {number}, and is {found.entries.get(path)}"
    possible = {line["n"] for line in history.steps("create", "unknown")}
    if killed:
        possible.add(max([*possible, *acknowledged.values()], default=0) + 1)
    for path, number in found.entries.items():
        if path not in acknowledged and number not in possible:
            yield f"doubled or invented: {path} with {number}"
    numbers = [found.entries[path] for path in sorted(found.entries)]
    if any(earlier >= later for earlier, later in pairwise(numbers)):
        yield f"order lost: {numbers}"


def _judge_register(history: LedgerHistory, found: Found, killed: bool) -> Iterator[str]:
    if (found.register, found.version) != (found.mirror, found.mirror_version):
        yield f"a multi was taken apart: {found.register} version {found.version}, {found.mirror} version {found.mirror_version}"
    told = [line for line in history.lines if "version" in line and line.get("outcome") != "unknown"]
    numbers = {found.version: found.register}
    for line in told:
        if numbers.setdefault(line["version"], line["n"]) != line["n"]:
            yield f"version {line['version']} was {numbers[line['version']]}, and {line['n']}"
    values = [numbers[version] for version in sorted(numbers)]
    if any(earlier >= later for earlier, later in pairwise(values)):
        yield f"the register went back: {values}"
    least = len(history.steps("multi", "ok"))
    most = least + len(history.steps("multi", "unknown")) + killed
    if max(numbers) > found.version or not least <= found.version <= most:
        yield f"{least} multis were acknowledged, {most} can have been done, and version {max(numbers)} was seen: it is {found.version}"


def _judge_sight(history: LedgerHistory, found: Found, killed: bool) -> Iterator[str]:
    versions = [line["version"] for line in history.events("seen")]
    if any(earlier > later for earlier, later in pairwise(versions)):
        yield f"a session saw older data after newer: {versions}"
    if not killed and (not versions or versions[-1] != found.version):
        yield f"the watch stopped at version {versions[-1:]} of {found.version}"

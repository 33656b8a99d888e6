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

Nothing is done twice but the ephemeral, of which there is one then: an outcome that is unknown stays so. A read by the same session after an acknowledged create shows what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import attrs

from tests.clients.client_program import History


@attrs.frozen(kw_only=True)
class Found:
    """Tree below ROOT at the end, as another client reads it."""

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


def judge(history: History, found: Found, *, killed: bool = False) -> Iterator[str]:
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


def _judge_entries(history: History, found: Found, killed: bool) -> Iterator[str]:
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


def _judge_register(history: History, found: Found, killed: bool) -> Iterator[str]:
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


def _judge_sight(history: History, found: Found, killed: bool) -> Iterator[str]:
    versions = [line["version"] for line in history.events("seen")]
    if any(earlier > later for earlier, later in pairwise(versions)):
        yield f"a session saw older data after newer: {versions}"
    if not killed and (not versions or versions[-1] != found.version):
        yield f"the watch stopped at version {versions[-1:]} of {found.version}"

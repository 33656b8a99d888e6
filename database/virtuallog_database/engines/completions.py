"""Who is to be told what, once everything of a transaction has been seen by everybody.                           Pure.

A transaction of the store covers many entries. Whoever proposed the first one must not read the store, nor let a client
read it, before `post_apply` has been called for the last: the effects of all of them are there, but what watches say of the
last is not on its way yet.
"""

from __future__ import annotations

from typing import Any

import attrs

from virtuallog.ports import Done
from virtuallog_database.engines.api import Failed


@attrs.define(eq=False)
class Completions:
    """Results in the order in which they were found, held back until `run`."""

    _waiting: list[tuple[Done, Any]] = attrs.field(factory=list)

    def add(self, done: Done, result: Any) -> None:
        """`result` is what `apply` returned."""
        self._waiting.append((done, result.error if isinstance(result, Failed) else result))

    def run(self) -> None:
        """Tell them. Those who are told may propose again."""
        waiting, self._waiting = self._waiting, []
        for done, outcome in waiting:
            done(outcome)

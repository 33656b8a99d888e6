"""The runner of actions: one at a time, with a record before and after.

A run is a task of the client. It goes on when its request is cut, by a deadline or by a lost connection, and ends after `Action.seconds` at
the latest. If the console is ended meanwhile, the intent stays without an outcome: the outcome is unknown, and nodes go on
with what they have begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.audit import INTENT, OUTCOME, AuditRecord
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import (
    ChainConflictError,
    ForbiddenError,
    InvalidSettingError,
    OverloadedError,
    RetryableError,
    TooLargeError,
    UnknownKindError,
    UnsupportedError,
    UntrustedError,
    VirtualLogError,
)
from virtuallog.runtime import log as logger
from virtuallog_console.access.core.caller import Caller
from virtuallog_console.actions.audit_log import AuditLog
from virtuallog_console.actions.contract import Action, ActionPlan

DONE: Final = "done"
REFUSED: Final = "refused"
"""Nothing was changed."""
FAILED: Final = "failed"
"""A part may have been changed."""
UNKNOWN: Final = "unknown"

_NOTHING_DONE: Final = (
    ChainConflictError, ForbiddenError, InvalidSettingError, OverloadedError, TooLargeError, UnknownKindError, UnsupportedError,
    UntrustedError,
)  # fmt: skip
"""Errors of requests that were refused before anything was changed."""


class ActionBusyError(Exception):
    """Another action is under way at this console. Nothing was done."""

    def __init__(self, run: ActionRun) -> None:
        super().__init__(f"{run.caller.name} is at it: {run.plan.confirmation}; {run.says}")


@attrs.define(eq=False, kw_only=True)
class ActionRun:
    """One action that is under way, or has ended."""

    id: str
    name: str
    plan: ActionPlan
    caller: Caller
    now_ms: Callable[[], int]
    says: str = "begun"
    """The present step, in words."""
    has_begun: bool = False
    """True if a step was told of: something may have been changed."""
    intent: str = ""
    """Position of the record of the intent, or the reason why there is none."""
    outcome: str = ""
    """Empty until there is one."""
    detail: str = ""
    unrecorded: str = ""
    """Reason why the outcome is not in the log. Empty if it is."""
    ended: trio.Event = attrs.field(factory=trio.Event)

    def tell(self, says: str) -> None:
        """Note a step."""
        self.says, self.has_begun = says, True

    def end(self, outcome: str, detail: str) -> None:
        """Note the outcome, unless there is one already."""
        if not self.outcome:
            self.outcome, self.detail = outcome, detail

    def record(self, event: str, version: int = 0) -> AuditRecord:
        """The record of this moment."""
        return AuditRecord(
            event=event,
            id=self.id,
            action=self.name,
            arguments=self.plan.arguments,
            caller=self.caller.name,
            proof=self.caller.proof.value,
            role=self.caller.role.name.lower(),
            time_ms=self.now_ms(),
            version=self.plan.version,
            version_after=version,
            outcome=self.outcome,
            detail=self.detail,
            intent=self.intent,
        )


@attrs.define(eq=False)
class ActionRunner:
    """Runs the actions of one console."""

    _log: VirtualLog
    _audit: AuditLog
    last: ActionRun | None = attrs.field(default=None, init=False)
    """The run that is under way, or the last one. None if there was none since the console was started."""

    def begin(self, action: Action, plan: ActionPlan, caller: Caller) -> ActionRun:
        """Begin a run in a task of its own.

        Raises:
            ActionBusyError: another one is under way.
        """
        if self.last is not None and not self.last.ended.is_set():
            raise ActionBusyError(self.last)
        environment = self._log.view.environment
        run = self.last = ActionRun(
            id=environment.random.randbytes(8).hex(),
            name=action.name,
            plan=plan,
            caller=caller,
            now_ms=lambda: int(environment.clock.wall() * 1000),
        )
        environment.nursery.start_soon(self._do, action, run)
        return run

    async def _do(self, action: Action, run: ActionRun) -> None:
        try:
            _log_record("an action begins", run.record(INTENT))
            if await self._intend(run) or not action.needs_intent:
                await self._act(action, run)
            else:
                run.end(REFUSED, f"nothing was done, as the log does not take the record of the intent: {run.intent}")
            await self._conclude(run)
        finally:  # also if the console ends
            run.end(UNKNOWN, "the console was ended meanwhile")
            _log_record("an action has ended", run.record(OUTCOME, self._version))
            run.ended.set()

    async def _intend(self, run: ActionRun) -> bool:
        """Record the intent; False if that is not possible."""
        try:
            run.intent = f"position {await self._audit.append(run.record(INTENT))}"
        except VirtualLogError as error:
            run.intent = f"no intent could be recorded: {error}"
            return False
        return True

    async def _act(self, action: Action, run: ActionRun) -> None:
        with self._log.view.environment.clock.timeout(action.seconds):
            try:
                await self._check_version(run.plan.version)
                run.end(DONE, await action.act(run.plan, run.tell))
            except VirtualLogError as error:
                run.end(outcome_of(error, has_begun=run.has_begun), str(error))
            except Exception:
                logger.exception("an action failed", action=action.name, id=run.id)
                run.end(UNKNOWN, "a bug; the reason is in the log of the console")
        run.end(UNKNOWN, f"no end within {action.seconds:,.0f} s; the last step was: {run.says}")

    async def _check_version(self, seen: int) -> None:
        """Check once more, as the record of the intent may have taken its time. A reconfiguration is put on this version only."""
        found = (await self._log.view.refresh()).version
        if found != seen:
            raise ChainConflictError(seen, found)

    async def _conclude(self, run: ActionRun) -> None:
        try:
            await self._audit.append(run.record(OUTCOME, self._version))
        except VirtualLogError as error:
            run.unrecorded = str(error)

    @property
    def _version(self) -> int:
        cached = self._log.view.cached
        return 0 if cached is None else cached.version


def outcome_of(error: VirtualLogError, *, has_begun: bool) -> str:
    """The outcome of an action that ended with this error.

    Args:
        error: the error.
        has_begun: True if something may have been changed before.
    """
    if isinstance(error, _NOTHING_DONE):
        return FAILED if has_begun else REFUSED
    return UNKNOWN if isinstance(error, RetryableError) else FAILED


def _log_record(event: str, record: AuditRecord) -> None:
    logger.info(event, **attrs.asdict(record))

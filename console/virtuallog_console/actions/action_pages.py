"""Pages of the actions, and their routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

import attrs
from starlette.datastructures import QueryParams
from starlette.responses import Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import VirtualLogError
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.access.core.problem import ProblemError
from virtuallog_console.access.routes import ConsoleRoute, Parameter, RouteGroup
from virtuallog_console.actions.action_runner import (
    DONE,
    FAILED,
    REFUSED,
    UNKNOWN,
    ActionBusyError,
    ActionRun,
    ActionRunner,
)
from virtuallog_console.actions.archive import ArchiveAction
from virtuallog_console.actions.audit_log import AuditLog, AuditView
from virtuallog_console.actions.contract import Action, ActionPlan, FormField
from virtuallog_console.actions.drain import DrainAction
from virtuallog_console.actions.reconfigure import ReconfigureAction
from virtuallog_console.actions.trim import TrimAction
from virtuallog_console.pages.frame import Frame, PageEndpoint, PageRequest
from virtuallog_console.pages.page_query import PageQuery, PageQueryError
from virtuallog_console.views.masks import NO_MASKS, Masks
from virtuallog_console.views.shared_view import SharedView

FORM: Final = "application/x-www-form-urlencoded"
FORM_BYTES: Final = 16 << 10
"""Most bytes of a form: as much as an address may have."""
FORM_FIELDS_MAX: Final = 16
PLAN_SECONDS: Final = 25.0
"""Time for a dry run. Nodes of the cluster are asked, and silent ones take their timeouts."""
WAIT_SECONDS: Final = 20.0
"""Time for which a request waits for the end of an action. It goes on after that."""
REQUEST_SECONDS: Final = 60.0
"""Longest duration of a request: the dry run, the wait and the answer."""
AGE_SECONDS: Final = 1.0
"""Age up to which the last records are shown again: all open pages together read them once in a second."""
_STATUSES: Final = {"": 202, DONE: 200, REFUSED: 409, FAILED: 502, UNKNOWN: 504}


@attrs.frozen
class ActionPages:
    """Shows actions, plans them, and starts those that are confirmed."""

    _frame: Frame
    _policy: AccessPolicy
    _actions: Sequence[Action]
    _records: SharedView[AuditView]
    _runner: ActionRunner

    @classmethod
    def of(cls, log: VirtualLog, policy: AccessPolicy, archives: str = "", masks: Masks = NO_MASKS) -> ActionPages:
        """All actions on a log.

        Args:
            log: an open client, with the rights of an admin if actions are on.
            policy: says who may act.
            archives: URL below which archives are made. Empty if none are.
            masks: of the viewer.
        """
        actions = (ReconfigureAction(log), DrainAction(log), TrimAction(log), ArchiveAction(log, archives))
        audit = AuditLog(log)
        records = SharedView(audit.read_last, log.view.environment, AGE_SECONDS)
        return cls(Frame(log, masks), policy, actions, records, ActionRunner(log, audit))

    def routes(self) -> RouteGroup:
        """The routes. Those that show need no role: a page says why a caller is refused."""
        name = Parameter(
            name="name",
            description="Name of the action.",
            schema={"enum": [each.name for each in self._actions]},
            place="path",
        )

        def page(path: str, endpoint: PageEndpoint, summary: str, **more: Any) -> ConsoleRoute:
            values = {"method": "GET", "role": Role.CLIENT, "seconds": REQUEST_SECONDS, **more}
            return ConsoleRoute(path=path, endpoint=self._frame.endpoint(endpoint), summary=summary, **values)

        return RouteGroup(
            "actions",
            (
                page("/actions", self.list, "List the actions, and the last ones that were recorded"),
                page("/actions/{name}", self.plan, "Show the effect of an action; change nothing", parameters=(name,)),
                page(
                    "/actions/{name}",
                    self.act,
                    "Carry out an action",
                    method="POST",
                    role=Role.ADMIN,
                    acts=True,
                    media_types=(FORM,),
                    body_bytes=FORM_BYTES,
                    parameters=(name,),
                ),
            ),
        )

    async def list(self, asked: PageRequest) -> Response:
        """The actions, what is under way, and the last records."""
        if refused := self._refused(asked):
            return refused
        view = await self._records.get()
        return self._frame.show("actions.html", asked, actions=self._actions, view=view, run=self._runner.last)

    async def plan(self, asked: PageRequest) -> Response:
        """The dry run."""
        if refused := self._refused(asked):
            return refused
        if (action := self._find(asked)) is None:
            return self._unknown(asked)
        return await self._show(asked, action, await self._plan(action, asked.query))

    async def act(self, asked: PageRequest) -> Response:
        """Carry it out, if it is confirmed and nothing has changed since the dry run. Waits for its end, for a while."""
        if (action := self._find(asked)) is None:
            return self._unknown(asked)
        query = _form_of(asked.request.body)
        plan = await self._plan(action, query)
        if plan is None:
            return await self._show(asked, action, None, 422, "Nothing was done: the form has no arguments.")
        seen = query.number("version")
        if seen != plan.version:
            text = f"the cluster is at version {plan.version}, and the dry run was for version {seen}"
            return await self._show(
                asked, action, plan, 409, f"Nothing was done: {text}. This is the effect as it would be now."
            )
        if plan.refusals:
            return await self._show(asked, action, plan, 409, "Nothing was done: it cannot be carried out.")
        if query.text("confirmation").strip() != plan.confirmation:
            return await self._show(
                asked, action, plan, 422, f"Nothing was done: to confirm it, type “{plan.confirmation}”."
            )
        try:
            run = self._runner.begin(action, plan, asked.request.caller)
        except ActionBusyError as error:
            return await self._show(
                asked, action, plan, 409, f"Nothing was done: this console has another action under way; {error}."
            )
        with self._frame.environment.clock.timeout(WAIT_SECONDS):
            await run.ended.wait()
        outcome = run.outcome if run.ended.is_set() else ""
        return await self._show(asked, action, None, _STATUSES[outcome], run=run)

    async def _plan(self, action: Action, query: PageQuery) -> ActionPlan | None:
        problem = f"the dry run took more than {PLAN_SECONDS:g} s"
        with self._frame.environment.clock.timeout(PLAN_SECONDS):
            try:
                return await action.plan(query)
            except VirtualLogError as error:
                problem = f"the dry run is not possible: {error}"
        cached = self._frame.log.view.cached
        return ActionPlan(
            arguments={},
            version=0 if cached is None else cached.version,
            confirmation=action.name,
            refusals=(problem,),
        )

    async def _show(
        self,
        asked: PageRequest,
        action: Action,
        plan: ActionPlan | None,
        status: int = 200,
        notice: str = "",
        run: ActionRun | None = None,
    ) -> Response:
        fields: Sequence[FormField] = ()
        problem = ""
        try:
            fields = await action.fields() if run is None else ()
        except VirtualLogError as error:
            problem = str(error)
        return self._frame.show(
            "action.html",
            asked,
            status=status,
            action=action,
            fields=fields,
            problem=problem,
            plan=plan,
            notice=notice,
            run=run,
        )

    def _refused(self, asked: PageRequest) -> Response | None:
        """A page that says why the caller may not act, and what to change. None if the caller may."""
        try:
            self._policy.check_role(asked.request.caller, Role.ADMIN, "an action", acts=True)
        except ProblemError as error:
            problem = error.problem
            text = f"{problem.detail[:1].upper()}{problem.detail[1:]}. To change that, {problem.remedy}."
            return self._frame.sentence(asked, problem.title, text, problem.status)
        return None

    def _find(self, asked: PageRequest) -> Action | None:
        return next((each for each in self._actions if each.name == asked.part("name")), None)

    def _unknown(self, asked: PageRequest) -> Response:
        names = ", ".join(each.name for each in self._actions)
        return self._frame.sentence(asked, "There is no such action", f"The actions are {names}.", 404)


def _form_of(body: bytes) -> PageQuery:
    """The values of a form.

    Raises:
        PageQueryError: it is none, or has too many values.
    """
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FORM_FIELDS_MAX)
    except ValueError as error:
        raise PageQueryError("The form cannot be read.") from error
    return PageQuery(QueryParams(pairs))

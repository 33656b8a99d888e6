"""`POST /v1/entries`: appends."""

from __future__ import annotations

import math
from typing import Final

import attrs
from starlette.responses import JSONResponse, Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import ForbiddenError, VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog_console.access.core.caller import Caller
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.access.routes import ConsoleRequest
from virtuallog_console.door.error_answers import NOTHING, problem_of
from virtuallog_console.door.payloads import payloads_of
from virtuallog_console.door.query import Query, malformed

IDEMPOTENCY_KEY: Final = "idempotency-key"
"""Header that is refused. To honour it, the console would have to find the entry of an earlier request with the same key, also one
that an earlier console had sent: the log has no index of keys. `expected_tail` does what it is for."""
LOOK_SECONDS: Final = 1.0
"""Age of the register up to which it tells whether clients may append."""


@attrs.define(eq=False)
class Appends:
    """Appends of one log."""

    _log: VirtualLog
    _clock: Clock
    _looked_at: float = attrs.field(default=-math.inf, init=False)
    """Time of the last look at the register for the guard."""

    async def append(self, request: ConsoleRequest) -> Response:
        """Append the entries of the body; all of them or none."""
        query = Query.of(request.http.query_params, ("expected_tail",))
        expected = query.number("expected_tail")
        if IDEMPOTENCY_KEY in request.http.headers:
            raise ProblemError(_NO_KEYS)
        await self._check_guard(request.caller)
        payloads = payloads_of(request.body, request.media_type)
        if expected is not None and len(payloads) > 1:
            raise malformed("expected_tail", str(expected), "given with one entry only")
        try:
            if expected is not None:
                position = await self._log.append_if_tail(payloads[0], LogPosition(expected))
            elif len(payloads) == 1:
                position = await self._log.append(payloads[0])
            else:
                position = LogPosition((await self._log.append_many(payloads)).start)
        except VirtualLogError as error:
            raise ProblemError(problem_of(error, append=True)) from error
        placed = {"position": position, "count": len(payloads)}
        return JSONResponse(placed, 201, {"Location": f"/v1/entries/{position}"})

    async def _check_guard(self, caller: Caller) -> None:
        """Refuse what nodes would refuse to this caller, and not to a console with the certificate of an admin.

        Raises:
            ProblemError: only members and admins append to the log, or the register cannot be read; nothing was done.
        """
        if caller.role >= Role.ADMIN:
            return
        view, now = self._log.view, self._clock.monotonic()
        if now - self._looked_at > LOOK_SECONDS:
            try:
                await view.refresh()
            except VirtualLogError as error:
                raise ProblemError(attrs.evolve(problem_of(error), more={"outcome": NOTHING})) from error
            self._looked_at = now
        if view.cached is not None and view.cached.is_guarded:
            refusal = ForbiddenError("an append to the log of a database", caller.name, Role.ADMIN.name.lower())
            raise ProblemError(problem_of(refusal, append=True))


_NO_KEYS: Final = Problem(
    status=400,
    kind="idempotency-key",
    title="Idempotency-Key is not supported",
    detail="the log has no index of keys, so a repeated request would append again",
    remedy="append with expected_tail: the entry is in the log at that position, once, or not at all",
    more={"outcome": "nothing"},
)

"""`POST /v1/entries`: appends."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.responses import JSONResponse, Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import ForbiddenError, VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog_console.access.core.caller import Caller
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.access.routes import ConsoleRequest
from virtuallog_console.door.error_answers import problem_of
from virtuallog_console.door.payloads import payloads_of
from virtuallog_console.door.query import Query, malformed

IDEMPOTENCY_KEY: Final = "idempotency-key"
"""Header that is refused. To honour it, the console would have to find the entry of an earlier request with the same key, also one
that an earlier console had sent: the log has no index of keys. `expected_tail` does what it is for."""


@attrs.frozen
class Appends:
    """Appends of one log."""

    _log: VirtualLog

    async def append(self, request: ConsoleRequest) -> Response:
        """Append the entries of the body; all of them or none."""
        query = Query.of(request.http.query_params, ("expected_tail",))
        expected = query.number("expected_tail")
        if IDEMPOTENCY_KEY in request.http.headers:
            raise ProblemError(_NO_KEYS)
        self._check_guard(request.caller)
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

    def _check_guard(self, caller: Caller) -> None:
        """Refuse what nodes would refuse to this caller, and not to a console with the certificate of an admin.

        Raises:
            ProblemError: only members and admins append to the log.
        """
        register = self._log.view.cached
        if register is not None and register.is_guarded and caller.role < Role.ADMIN:
            error = ForbiddenError("an append to the log of a database", caller.name, Role.ADMIN.name.lower())
            raise ProblemError(problem_of(error, append=True))


_NO_KEYS: Final = Problem(
    status=400,
    kind="idempotency-key",
    title="Idempotency-Key is not supported",
    detail="the log has no index of keys, so a repeated request would append again",
    remedy="append with expected_tail: the entry is in the log at that position, once, or not at all",
    more={"outcome": "nothing"},
)

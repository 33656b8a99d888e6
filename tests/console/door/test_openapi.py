"""The description of the door: every route and status in it is real, and no other one is."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, cast

import attrs
import trio
from trio.testing import MockClock

from tests.console.asgi import room
from tests.console.served import Answer
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract import errors
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, Open
from virtuallog_console.access.admission import Admission, AdmissionLimits
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.door.error_answers import ANSWERS
from virtuallog_console.door.openapi import describe, statuses
from virtuallog_console.door.payloads import BODY_BYTES_MAX

PROXIED = AccessPolicy(proxies=(ipaddress.ip_network("127.0.0.1"),))
ERRORS: Sequence[VirtualLogError] = (
    errors.UnavailableError("no answer"), errors.OverloadedError("full"), errors.UntrustedError("who"),
    errors.ReconfigurationNeededError("restart"), errors.OutOfOrderError(1), errors.SealedError(), errors.ChainConflictError(1, 2),
    errors.TrimmedError(5), errors.BeyondTailError(9, 5), errors.TailMismatchError(1, 2), errors.TooLargeError("bytes", 2, 1),
    errors.MalformedError("rubbish"), errors.UnsupportedError("not here"), errors.ForbiddenError("append", "me", "admin"),
    errors.UnknownKindError("new", "old"), errors.InvalidSettingError("x", "y"), errors.WrongRecipientError("node", "1", "2"),
    errors.CorruptionError("bits"), errors.StorageError("disk"), errors.DiskFullError("disk"),
)  # fmt: skip
APPENDS_ONLY = {"TailMismatchError", "TooLargeError", "SealedError", "DiskFullError", "ForbiddenError"}
READS_ONLY = {"TrimmedError", "BeyondTailError"}


@attrs.frozen
class StubView:
    """The view of a client that knows no register yet."""

    cached: None = None

    async def refresh(self) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define
class StubLog:
    """A log that answers every call with this error, or reads this gap at every position below 10."""

    error: VirtualLogError | None = None
    gap: GapKind = GapKind.FILLER
    silent: bool = False
    view: StubView = attrs.field(factory=StubView)

    def reader(self, _: int) -> StubReader:
        return StubReader()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any) -> Any:
            await trio.lowlevel.checkpoint()
            if self.silent:
                await trio.sleep_forever()
            if self.error is not None:
                raise self.error
            if name == "read":
                return [Gap(arguments[0], arguments[1], self.gap)]
            return Open(10) if name == "check_tail" else 7

        return call


class StubReader:
    """A reader at the tail."""

    async def batches(self) -> AsyncGenerator[Placed, None]:
        await trio.Event().wait()
        yield Gap(0, 1, GapKind.FILLER)


def as_log(stub: StubLog) -> VirtualLog:
    return cast(VirtualLog, stub)


def test_every_error_has_an_answer() -> None:
    """A new class of errors needs a decision: which status, and what its caller can do."""
    known = set(errors.WIRE_CLASSES.values())

    assert set(ANSWERS) == known
    assert {type(error) for error in ERRORS} == known


async def test_every_status_is_documented_and_real(autojump_clock: MockClock) -> None:
    """Each route is asked in every way that has an answer of its own: the statuses seen are those in its description."""
    seen: dict[str, set[int]] = defaultdict(set)
    async with world() as made, trio.open_nursery() as nursery:
        one = room(made.client(), nursery)
        routes = {f"{each.method} {each.path}": each for each in one.application.routes}

        async def note(
            log: Any,
            policy: AccessPolicy | None = None,
            admission: Admission | None = None,
            only: str = "",
            **more: Any,
        ) -> None:
            there = room(log, nursery, policy, admission=admission)
            for name, route in routes.items():
                if only not in name:
                    continue
                path = route.path.replace("{position}", "3")
                request = {"body": [b"x"]} if route.method == "POST" else {}
                answer = await there.ask(method=route.method, path=path, **{"takes": 0, **request, **more})
                seen[name].add(answer.status)
                if answer.status >= 400:
                    check_problem(answer)

        log = made.client()
        await log.append_many([b"entry"] * 5)
        await note(log)
        await note(log, query="unknown=1")
        await note(log, PROXIED)
        await note(log, headers={"X-Forwarded-User": "bob"})
        await note(log, headers={"Host": "attacker.example"})
        await note(log, admission=Admission(AdmissionLimits(requests_of_caller=0, streams_of_caller=0)))
        await note(as_log(StubLog(silent=True)))
        for kind in GapKind:
            await note(as_log(StubLog(gap=kind)), only="GET /v1/entries")
        for error in ERRORS:
            name = type(error).__name__
            for route in routes:
                if (name in READS_ONLY and "GET /v1/entries" not in route) or (name in APPENDS_ONLY and "GET" in route):
                    continue
                there = room(as_log(StubLog(error)), nursery)
                method, path = route.split()
                body = [b"x"] if method == "POST" else []
                answer = await there.ask(method=method, path=path.replace("{position}", "3"), body=body, takes=0)
                seen[route].add(answer.status)
        there = room(log, nursery)
        for sent, media_type in ((b"x", "text/html"), (b"x" * (BODY_BYTES_MAX + 1), "text/plain")):
            answer = await there.ask(
                method="POST", path="/v1/entries", body=[sent], headers={"Content-Type": media_type}
            )
            seen["POST /v1/entries"].add(answer.status)
        late = await there.ask(method="POST", path="/v1/entries", body=[b"x"], is_unfinished=True)
        seen["POST /v1/entries"].add(late.status)
        for path in ("/v1/entries", "/v1/entries/99", "/v1/tail"):
            answer = await there.ask(path=path, query="" if path.endswith("99") else "from=99")
            seen["GET " + path.replace("99", "{position}")].add(answer.status)
        nursery.cancel_scope.cancel()

    documented = {name: set(statuses(route)) for name, route in routes.items()}
    assert {name: sorted(found - documented[name]) for name, found in seen.items() if found - documented[name]} == {}
    assert {name: sorted(found - seen[name]) for name, found in documented.items() if found - seen[name]} == {}


def check_problem(answer: Answer) -> None:
    """A refusal says what is wrong and what to do."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "remedy"} <= set(answer.json)
    assert answer.json["status"] == answer.status


async def test_the_description_is_served() -> None:
    """It is that of the routes, each with its parameters, and says which media types a body may have."""
    async with world() as made, trio.open_nursery() as nursery:
        one = room(made.client(), nursery)
        answer = await one.ask(path="/v1/openapi.json")

        assert answer.json == describe(one.application.routes)
        assert answer.json["paths"]["/v1/entries"]["post"]["requestBody"]["required"] is True
        assert {each["name"] for each in answer.json["paths"]["/v1/tail"]["get"]["parameters"]} == {
            "from", "Last-Event-ID", "encoding", "latest",
        }  # fmt: skip
        nursery.cancel_scope.cancel()

"""The routes of the door."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import JSONResponse, Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.ports import Clock
from virtuallog_console.access.routes import ConsoleRequest, ConsoleRoute, Parameter, RouteGroup
from virtuallog_console.door.appends import Appends
from virtuallog_console.door.entry_json import ENCODINGS, Hides, hides_nothing
from virtuallog_console.door.openapi import describe
from virtuallog_console.door.payloads import BODY_BYTES_MAX, MEDIA_TYPES
from virtuallog_console.door.query import Query
from virtuallog_console.door.reads import LIMIT_DEFAULT, LIMIT_MAX, READ_BYTES_DEFAULT, READ_BYTES_MAX, Reads
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.door.tail_stream import END_SECONDS, TAIL_SECONDS, TailStream

_ENCODING: Final = Parameter(
    name="encoding",
    description="Member that holds a payload; payloads that are no UTF-8 come in base64 all the same.",
    schema={"enum": list(ENCODINGS), "default": ENCODINGS[0]},
)
_POSITION: Final = Parameter(name="position", description="Position of the entry.", place="path")
_LAST_EVENT: Final = Parameter(
    name="Last-Event-ID", description="Id of the last event received. Goes before `from`.", place="header"
)
_LOG_FAILS: Final = {
    500: "The log or the console failed.",
    501: "The console lacks what the log needs.",
    502: "A node cannot be understood or trusted.",
    503: "Not enough nodes answered.",
    504: "Not done in time.",
}
_READ_FAILS: Final = {
    410: "Trimmed: begin at trim_point. Or lost.",
    416: "Past the tail.",
}


def door(log: VirtualLog, hub: TailHub, clock: Clock, hides: Hides = hides_nothing) -> RouteGroup:
    """The routes of the door to a log. `hub` has to run; payloads that `hides` is true for are not given out."""
    appends, reads, tails = Appends(log, clock), Reads(log, hides), TailStream(log, hub, clock, hides)
    described: dict[str, Any] = {}

    async def description(request: ConsoleRequest) -> Response:
        Query.of(request.http.query_params, ())
        return JSONResponse(described)

    routes = (
        ConsoleRoute(
            method="POST",
            path="/v1/entries",
            endpoint=appends.append,
            role=Role.CLIENT,
            summary="Append one entry, or several side by side",
            media_types=MEDIA_TYPES,
            body_bytes=BODY_BYTES_MAX,
            parameters=(
                Parameter(name="expected_tail", description="Append one entry at exactly this position, or nothing."),
            ),
            answers={
                201: "Durable at `position`; `count` entries from there on.",
                409: "The log is closed; nothing was done.",
                412: "The tail is not the expected one; nothing was done.",
                **_LOG_FAILS,
                504: "Unknown outcome: the entry may be in the log, now or later.",
                507: "A disk is full.",
            },
        ),
        ConsoleRoute(
            method="GET",
            path="/v1/entries",
            endpoint=reads.entries,
            role=Role.CLIENT,
            summary="Read entries from a position on",
            parameters=(
                Parameter(name="from", description="First position. Without it, the first that is not trimmed."),
                Parameter(
                    name="limit",
                    description="Most entries and gaps.",
                    schema={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
                ),
                Parameter(
                    name="max_bytes",
                    description="Most bytes of payloads; one entry comes in any case.",
                    schema={"type": "integer", "minimum": 1, "maximum": READ_BYTES_MAX, "default": READ_BYTES_DEFAULT},
                ),
                _ENCODING,
            ),
            answers={200: "Entries and gaps; go on at `next`.", **_READ_FAILS, **_LOG_FAILS},
        ),
        ConsoleRoute(
            method="GET",
            path="/v1/entries/{position}",
            endpoint=reads.entry,
            role=Role.CLIENT,
            summary="Read the payload of one entry as it is",
            parameters=(_POSITION,),
            answers={200: "The payload.", 404: "The position holds no entry.", **_READ_FAILS, **_LOG_FAILS},
        ),
        ConsoleRoute(
            method="GET",
            path="/v1/tail",
            endpoint=tails.tail,
            role=Role.CLIENT,
            summary="Follow the log as server-sent events",
            seconds=TAIL_SECONDS + END_SECONDS,
            is_stream=True,
            parameters=(
                Parameter(name="from", description="First position. Without it, the tail."),
                _LAST_EVENT,
                _ENCODING,
                Parameter(
                    name="latest",
                    description="True to be sent the newest entries of a log that is too fast, and the number of those that were skipped.",
                    schema={"enum": ["false", "true"], "default": "false"},
                ),
            ),
            answers={200: "Events: entry, gap, skipped, resume, closed, problem.", 416: "Past the tail.", **_LOG_FAILS},
        ),
        ConsoleRoute(
            method="GET",
            path="/v1/log",
            endpoint=reads.log,
            role=Role.CLIENT,
            summary="Tail, trim point and chain",
            answers={200: "The log.", **_LOG_FAILS},
        ),
        ConsoleRoute(
            method="GET",
            path="/v1/openapi.json",
            endpoint=description,
            role=Role.CLIENT,
            summary="This description",
            answers={200: "OpenAPI 3.1."},
        ),
    )
    described.update(describe(routes))
    return RouteGroup("door", routes)

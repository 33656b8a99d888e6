"""`GET /v1/entries`, `/v1/entries/{position}` and `/v1/log`: reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import attrs
import trio
from starlette.responses import JSONResponse, Response

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import BeyondTailError, TrimmedError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogPosition, PlacedBatch, Record, Sealed
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.access.routes import ConsoleRequest
from virtuallog_console.door.entry_json import ENCODINGS, WITHHELD, Hides, hides_nothing, spell_record
from virtuallog_console.door.error_answers import problem_of
from virtuallog_console.door.query import Query, parse_number

LIMIT_DEFAULT: Final = 100
"""Entries of an answer, unless the caller asks for another number."""
LIMIT_MAX: Final = 4096
"""Most entries of an answer."""
READ_BYTES_DEFAULT: Final = 1 << 20
"""Bytes of all payloads of an answer, or one entry."""
READ_BYTES_MAX: Final = 4 << 20
"""Most of them. In base64 a third is added; the batch that an entry is cut from has 8 MiB at most."""
READS_MAX: Final = 8
"""Reads at a time, of all callers: each holds a batch and an answer. More wait."""
READS_OF_ANSWER_MAX: Final = 16
"""Reads of the log for one answer: each ends at the end of a segment."""
SEGMENTS_MAX: Final = 64
"""Segments that /v1/log lists: the last ones."""
PIECE: Final = 256
"""Entries that are spelled between two checkpoints."""


@attrs.define(eq=False)
class Reads:
    """Reads of one log."""

    _log: VirtualLog
    _hides: Hides = hides_nothing
    _places: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(READS_MAX), init=False)

    async def entries(self, request: ConsoleRequest) -> Response:
        """Entries from a position on. `next` is where to go on; equal to `tail`, if there is nothing more now."""
        query = Query.of(request.http.query_params, ("from", "limit", "max_bytes", "encoding"))
        start = query.number("from")
        limit = query.number("limit", 1, LIMIT_MAX) or LIMIT_DEFAULT
        max_bytes = query.number("max_bytes", 1, READ_BYTES_MAX) or READ_BYTES_DEFAULT
        encoding = query.word("encoding", ENCODINGS)
        async with self._place():
            tail = (await self._log.check_tail()).tail
            if start is not None and start > tail:
                raise BeyondTailError(start, tail)
            first = start if start is not None else await self._log.find_trim_point()
            found = await self._read_on(first, min(tail, first + limit), max_bytes)
            if _begins_trimmed(found):
                first = await self._beyond_trim(found, start)
                found = await self._read_on(first, min(tail, first + limit), max_bytes)
            return await _page(_within(found, limit, max_bytes), first, tail, encoding, self._hides)

    async def entry(self, request: ConsoleRequest) -> Response:
        """The payload of one entry, as it is."""
        Query.of(request.http.query_params, ())
        position = parse_number("position", request.http.path_params["position"])
        async with self._place():
            tail = (await self._log.check_tail()).tail
            if position >= tail:
                raise BeyondTailError(position, tail)
            found = await self._read(position, position + 1, 1)
            if _begins_trimmed(found):
                await self._beyond_trim(found, position)
            for record in _records(found):
                if not isinstance(record, Gap):
                    if self._hides(record.payload):
                        raise ProblemError(_withheld(position))
                    headers = {"X-Position": str(position), "X-Time-Ms": str(record.time_ms)}
                    return Response(record.payload, 200, headers, media_type="application/octet-stream")
                raise ProblemError(_hole(position, record.kind))
            raise ProblemError(_hole(position, GapKind.FILLER))

    async def log(self, request: ConsoleRequest) -> Response:
        """Tail, trim point and chain."""
        Query.of(request.http.query_params, ())
        async with self._place():
            tail = await self._log.check_tail()
            trim_point = await self._log.find_trim_point()
            register = await self._log.view.current()
        segments = register.chain.segments
        return JSONResponse({
            "tail": tail.tail,
            "trim_point": trim_point,
            "closed": isinstance(tail, Sealed),
            "version": register.chain.version,
            "segments": [
                {"id": str(each.id), "kind": each.kind, "from": each.start, "to": each.stop}
                for each in segments[-SEGMENTS_MAX:]
            ],
            "segments_left_out": max(0, len(segments) - SEGMENTS_MAX),
        })  # fmt: skip

    async def _read(self, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        return await self._log.read(LogPosition(start), LogPosition(stop), max_bytes) if start < stop else ()

    async def _read_on(self, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        """Read across the ends of segments, where one read ends."""
        found, left = list[Placed](), max_bytes
        for _ in range(READS_OF_ANSWER_MAX):
            more = await self._read(start, stop, left)
            found += more
            left -= sum(len(placed.batch.blob) for placed in more if isinstance(placed, PlacedBatch))
            if not more or left <= 0:
                break
            start = more[-1].stop
        return found

    async def _beyond_trim(self, found: Sequence[Placed], start: int | None) -> int:
        """The trim point, if the caller has not asked for what is below.

        Raises:
            TrimmedError: the caller has.
        """
        trim_point = max(await self._log.find_trim_point(), found[0].stop)
        if start is not None:
            raise TrimmedError(trim_point)
        return trim_point

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        with translated():
            async with self._places:
                yield


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the log into answers."""
    try:
        yield
    except VirtualLogError as error:
        raise ProblemError(problem_of(error)) from error


def _begins_trimmed(found: Sequence[Placed]) -> bool:
    return bool(found) and isinstance(found[0], Gap) and found[0].kind is GapKind.TRIMMED


def _records(found: Sequence[Placed]) -> Iterator[Record]:
    for placed in found:
        if isinstance(placed, PlacedBatch):
            yield from placed.records()
        else:
            yield placed


def _within(found: Sequence[Placed], limit: int, max_bytes: int) -> Iterator[Record]:
    """The first record, and as many more as the bounds allow."""
    size = 0
    for count, record in enumerate(_records(found), 1):
        size += 0 if isinstance(record, Gap) else len(record.payload)
        if count > 1 and (count > limit or size > max_bytes):
            return
        yield record


async def _page(records: Iterator[Record], first: int, tail: int, encoding: str, hides: Hides) -> Response:
    entries, gaps, stop = list[str](), list[str](), first
    for count, record in enumerate(records, 1):
        is_gap = isinstance(record, Gap)
        (gaps if is_gap else entries).append(spell_record(record, encoding, hides))
        stop = record.stop if isinstance(record, Gap) else record.position + 1
        if count % PIECE == 0:
            await trio.lowlevel.checkpoint()
    head = json.dumps({"from": first, "next": stop, "tail": max(tail, stop)})[:-1]
    text = f'{head}, "entries": [{", ".join(entries)}], "gaps": [{", ".join(gaps)}]}}'
    return Response(text, media_type="application/json")


def _withheld(position: int) -> Problem:
    return Problem(
        status=403,
        kind="withheld",
        title="The bytes of the entry are not given out",
        detail=f"position {position} is {WITHHELD}",
        remedy=f"see /entries/{position}, which shows what is not masked",
        more={"position": position},
    )


def _hole(position: int, kind: GapKind) -> Problem:
    lost = kind is GapKind.LOST
    return Problem(
        status=410 if lost else 404,
        kind=kind.value,
        title="Every copy of the entry is gone" if lost else "The position holds no entry",
        detail=f"position {position} is a gap of the kind {kind.value}",
        remedy="go on at the next position",
        more={"position": position},
    )

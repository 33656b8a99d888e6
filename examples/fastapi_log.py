"""The log behind an HTTP service with FastAPI: append, read, and a tail as server-sent events.

pip install virtuallog fastapi hypercorn
VIRTUALLOG_CLUSTER=cluster/cluster.toml hypercorn examples.fastapi_log:app
curl --data-binary hello localhost:8000/entries
curl --no-buffer localhost:8000/tail
"""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse

from virtuallog import aio
from virtuallog.contract.errors import BeyondTailError, TooLargeError, UnavailableError
from virtuallog.contract.types import Data, Gap, LogPosition

TAILS_MAX = 50
"""Clients that tail at a time. Each holds a piece of about a MiB at most."""
APPEND_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 15.0


def data_event(record: Data) -> str:
    return f"id: {record.position}\ndata: {base64.b64encode(record.payload).decode()}\n\n"


def gap_event(gap: Gap) -> str:
    return f"id: {gap.stop - 1}\nevent: gap\ndata: {gap.kind.value}\n\n"


def make_app(opens: Callable[[], AbstractAsyncContextManager[aio.AsyncioLog]]) -> FastAPI:
    """A service on the log that `opens` opens: one client for the life of the server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opens() as log:
            app.state.log = log
            yield

    app = FastAPI(lifespan=lifespan)
    tails = asyncio.Semaphore(TAILS_MAX)

    @app.exception_handler(UnavailableError)
    async def unavailable(_: Request, error: UnavailableError) -> JSONResponse:
        return JSONResponse({"error": str(error), "outcome": "unknown"}, status_code=503)

    @app.post("/entries", status_code=201)
    async def append(request: Request) -> dict[str, int]:
        try:
            async with asyncio.timeout(APPEND_SECONDS):
                return {"position": await app.state.log.append(await request.body())}
        except TooLargeError as error:
            raise HTTPException(413, str(error)) from error
        except TimeoutError as error:
            cancelled = error.__cause__
            done = None if cancelled is None else cancelled.__cause__
            if isinstance(done, aio.CompletedError):  # it was in the log when the time was over
                return {"position": done.result}
            raise UnavailableError("not appended in time: it may be in the log, now or later") from error

    @app.get("/entries/{position}")
    async def read(position: int) -> dict[str, object]:
        try:
            (placed, *_) = await app.state.log.read(LogPosition(position), LogPosition(position + 1))
        except BeyondTailError as error:
            raise HTTPException(404, str(error)) from error
        if isinstance(placed, Gap):
            raise HTTPException(410, placed.kind.value)
        (record, *_) = placed.records()
        return {"position": record.position, "payload": base64.b64encode(record.payload).decode()}

    @app.get("/tail")
    async def tail(start: int = 0, last_event_id: int | None = Header(default=None)) -> StreamingResponse:
        if tails.locked():
            raise HTTPException(503, f"{TAILS_MAX} clients tail already")
        first = (
            start if last_event_id is None else last_event_id + 1
        )  # where the browser was when it lost the connection
        return StreamingResponse(events(LogPosition(first)), media_type="text/event-stream")

    async def events(start: LogPosition) -> AsyncIterator[str]:
        """Events of all records from `start` on, until the client goes: then the server cancels this, and the reader with it."""
        reader = app.state.log.reader(start)
        async with tails:
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        piece = await reader.read_piece()
                except TimeoutError:
                    yield ": nothing new\n\n"  # a server notices by this that its client has gone
                    continue
                if not piece:
                    return  # the log was closed on purpose
                for placed in piece:
                    for event in [gap_event(placed)] if isinstance(placed, Gap) else map(data_event, placed.records()):
                        yield event
                    reader.position = LogPosition(placed.stop)

    return app


app = make_app(partial(aio.connect, os.environ.get("VIRTUALLOG_CLUSTER", "cluster/cluster.toml")))

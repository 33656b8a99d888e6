"""Questions about the past of the database, answered by a process of `virtuallog database history` for each.

To play a log takes a processor for seconds, so it is not done on this console's event loop. One question is answered at a time, within a
time and a number of bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import MalformedError, OverloadedError, TerminalError, UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog_server.cli.common.failures import UNAVAILABLE

ANSWER_SECONDS: Final = 60.0
"""Longest question. On a machine that is busy, a process of low priority may not come to its end."""
END_SECONDS: Final = 20.0
"""Longest end of a process: some seconds for the release of its hold, and the time to delete its files."""
ANSWER_BYTES_MAX: Final = 16 << 20
"""Most bytes of an answer. The rows and values that are asked for have some hundred KiB, and one entry may add more."""
_ERROR_BYTES_MAX: Final = 4096


@attrs.define(eq=False)
class PastReader:
    """Asks about the past.

    Args:
        cluster: the cluster file.
        tls: certificate to call nodes with. None if the file says it, or without TLS.
        priority: of the processes.
        clock: clock of the timeout.
        program: runs `virtuallog`.
        seconds: longest question.
    """

    _cluster: Path
    _tls: TlsFiles | None
    _priority: str
    _clock: Clock
    _program: Sequence[str] = (sys.executable, "-P", "-m", "virtuallog_server")
    _seconds: float = ANSWER_SECONDS
    _is_busy: bool = attrs.field(default=False, init=False)

    async def history(self, path: str, at: str, limit: int, value_bytes: int) -> Mapping[str, Any]:
        """The last changes of a znode, and its state, as `virtuallog database history --json` prints them.

        Args:
            path: path of the znode, a valid one.
            at: a position or a time. Empty for the tail.
            limit: most changes.
            value_bytes: most bytes of each value.

        Raises:
            OverloadedError: another question is being answered.
            UnavailableError: no answer in time, or nodes did not answer.
            TerminalError: the command has failed, and says why.
        """
        if self._is_busy:
            raise OverloadedError("another question about the past is being answered; ask again in a minute")
        options = ["--alone", "--last", "--limit", str(limit), "--bytes", str(value_bytes)]
        options += ["--to", at] if at else []
        words = [
            "database",
            "history",
            *options,
            "--priority",
            self._priority,
            "--json",
            "--cluster",
            str(self._cluster),
        ]
        self._is_busy = True
        try:
            return await self._run([*self._program, *words, "--", path])
        finally:
            self._is_busy = False

    async def _run(self, command: Sequence[str]) -> Mapping[str, Any]:
        process = await trio.lowlevel.open_process(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self._environment
        )
        output, errors = bytearray(), bytearray()
        try:
            assert process.stdout is not None and process.stderr is not None
            with self._clock.timeout(self._seconds) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_read, process.stdout, output, ANSWER_BYTES_MAX)
                    nursery.start_soon(_read, process.stderr, errors, _ERROR_BYTES_MAX)
                await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                await self._end(process)
        if scope.cancelled_caught:
            raise UnavailableError(
                f"no answer within {self._seconds:g} s; `virtuallog database history` takes the time that it needs"
            )
        assert process.returncode is not None
        return _answer(process.returncode, bytes(output), bytes(errors))

    async def _end(self, process: trio.Process) -> None:
        """End a process that still runs: it deletes its scratch store, unless that takes too long."""
        if process.poll() is None:
            process.terminate()
            with self._clock.timeout(END_SECONDS):
                await process.wait()
        if process.poll() is None:
            process.kill()
            await process.wait()

    @property
    def _environment(self) -> Mapping[str, str]:
        if self._tls is None:
            return dict(os.environ)
        files = attrs.asdict(self._tls)
        return {**os.environ, **{f"VIRTUALLOG_{name.upper()}": str(path) for name, path in files.items() if path}}


async def _read(stream: trio.abc.ReceiveStream, into: bytearray, most: int) -> None:
    """Read up to the end, and keep the first bytes."""
    async for part in stream:
        into += part[: max(0, most - len(into))]


def _answer(code: int, output: bytes, errors: bytes) -> Mapping[str, Any]:
    if code < 0:
        raise UnavailableError(f"the process that answers was ended by signal {-code}")
    if code:
        (*_, line) = errors.decode(errors="replace").strip().splitlines() or [f"the command has ended with {code}"]
        reason = line.removeprefix("virtuallog: ")
        raise UnavailableError(reason) if code == UNAVAILABLE else PastRefusedError(reason)
    try:
        answer: Mapping[str, Any] = json.loads(output)
    except ValueError as error:
        raise MalformedError(f"the answer has more than {ANSWER_BYTES_MAX} bytes, or is none: {error}") from error
    return answer


@attrs.define
class PastRefusedError(TerminalError):
    """The past cannot be shown: no such znode, a position that is gone, or another reason that the text says."""

    reason: str

    def __str__(self) -> str:
        return self.reason

"""Functions that run at the end of the present scheduler turn, before the loop waits for I/O.

At that moment every task that could run has run. The work needs no task to wake up, and no turn of
its own, and all requests of the turn are done together: messages leave in one segment, records are
written with one sync. The functions run inside the event loop, so they must not block, and must not
wake tasks: the loop has already decided how long to wait. `later` is for that.

A callback of the loop that has done all its work calls `flush`, and the rest of the turn is not
waited for: what has been read is handled, a group is durable, a lone append is on its way.

Messages go first: what may block for a moment, such as a sync, is put with `put_last`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio
from trio.abc import Instrument


class EndOfTurn(Instrument):
    """End-of-turn functions of one run of the event loop. Use `end_of_turn`."""

    def __init__(self) -> None:
        self._functions: list[Callable[[], None]] = []
        self._last: list[Callable[[], None]] = []
        self._runs_last = False
        self._token = trio.lowlevel.current_trio_token()
        self.may_wake = True
        """False while functions run of which none may wake a task: between two turns."""

    def put(self, function: Callable[[], None]) -> None:
        """Run `function` once, at the next `flush` or at the end of this turn. An exception in it
        ends the event loop: it is a bug."""
        self._functions.append(function)

    def put_last(self, function: Callable[[], None]) -> None:
        """Do the same, behind all that is `put` until then. `function` may wake tasks, and may block
        for a moment, if `may_wake` is true when it runs.

        Put while such a function runs, it waits for the end of the turn: a chain of them never holds the loop.
        """
        self._last.append(function)

    def later(self, function: Callable[[], None]) -> None:
        """Run `function` in the next turn, which begins at once. It may wake tasks."""
        self._token.run_sync_soon(function)

    def flush(self) -> None:
        """Run what was put so far, now. Never raises."""
        if self._functions:
            functions, self._functions = self._functions, []
            self._run(functions)
        if self._last and not self._runs_last:
            functions, self._last = self._last, []
            self._runs_last = True
            try:
                self._run(functions)
            finally:  # an interrupt from the keyboard may end up here
                self._runs_last = False

    def _run(self, functions: list[Callable[[], None]]) -> None:
        for function in functions:
            try:
                function()
            except Exception as error:  # trio would remove an instrument that raises, and go on without it
                self.later(_raiser(error))

    def before_io_wait(self, timeout: float) -> None:  # the name that trio calls
        """Run the functions; called by trio."""
        if self._functions or self._last:
            self.may_wake = False
            self.flush()
            self.may_wake = True
            if self._functions or self._last:  # put by those: the loop must not wait for I/O before they have run
                self.later(lambda: None)


_END_OF_TURN: Final[trio.lowlevel.RunVar[EndOfTurn]] = trio.lowlevel.RunVar("virtuallog.end_of_turn")


def end_of_turn() -> EndOfTurn:
    """Return the `EndOfTurn` of this event loop."""
    try:
        return _END_OF_TURN.get()
    except LookupError:
        made = EndOfTurn()
        _END_OF_TURN.set(made)
        trio.lowlevel.add_instrument(made)
        return made


def _raiser(error: Exception) -> Callable[[], None]:
    def raise_error() -> None:
        raise error

    return raise_error

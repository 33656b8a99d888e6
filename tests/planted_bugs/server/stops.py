"""Bugs that make a part of a node stop: it does no more harm, so only a check of the reason for the stop notices."""

from __future__ import annotations

from collections import Counter
from typing import Final
from weakref import WeakKeyDictionary

import trio

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import UnavailableError
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.log_server_effects import Effect, Ticket
from virtuallog_loglets.native.drivers.sequencer_service import SequencerDriver
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeRepair,
    NativeSeal,
    NativeStore,
    NativeTrim,
    NativeWaitTail,
)

STEPS: Final = 150
"""Steps of one life of a LogServer: by then it has long been of use."""
ENTRIES: Final = 20
"""Entries of one sequencer."""

_steps: Final[WeakKeyDictionary[LogServer, Counter[str]]] = WeakKeyDictionary()
step_as_it_should = LogServer.step


@mutant(LogServer.step, scenario="cluster", found_by=["no unexpected error"])
def assertion_of_a_log_server_fails(
    self: LogServer,
    request: NativeStore | NativeSeal | NativeGetState | NativeWaitTail | NativeRepair | NativeTrim,
    ticket: Ticket,
) -> list[Effect]:
    """The invariant of a core is broken, late in its life: a bug, which must not look like a disk that has failed."""
    counts = _steps.setdefault(self, Counter())
    counts["steps"] += 1
    assert counts["steps"] < STEPS, "planted"
    return step_as_it_should(self, request, ticket)


@mutant(SequencerDriver.run, scenario="cluster", found_by=["no role closes by a retryable error"])
async def sequencer_ends_its_role(self: SequencerDriver) -> None:
    """An error of ours that says nothing about disks gets out of a task, and the role is closed until it begins anew."""
    try:
        while self._core.stopped is None and self._core.tail < ENTRIES:
            await self._offered.wait()
            self._offered = trio.Event()
            self._guard(self._turn)
    except trio.Cancelled:
        self._abandoned = True
        raise
    if self._core.stopped is None:
        raise UnavailableError("planted")


MUTANTS: Final[tuple[Mutant, ...]] = (assertion_of_a_log_server_fails, sequencer_ends_its_role)

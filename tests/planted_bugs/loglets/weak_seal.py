"""The ordering rule broken, on the smallest loglet that needs it (`virtuallog.testing.weak_seal`)."""

from __future__ import annotations

from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import SealedError
from virtuallog.contract.types import LogletOffset, Open, Sealed, Tail
from virtuallog.testing.weak_seal import WeakSealLoglet, WeakSealWrite

ERRATUM: Final = "Delos, OSDI'20, section 3.4, and its erratum"


@mutant(
    WeakSealLoglet.check_tail,
    scenario="weak-seal",
    found_by=["open tails below the stop"],
    published=ERRATUM,
    within=40,
)
async def seal_bit_before_tail(self: WeakSealLoglet) -> Tail:
    """check_tail reads the bit first, as the published text allows."""
    sealed = await self._is_sealed()
    tail = await self._tail()
    return Sealed(tail) if sealed else Open(tail)


@mutant(
    WeakSealLoglet.check_tail,
    scenario="weak-seal",
    found_by=["acknowledged below the stop", "loglet tails move forward"],
    published=ERRATUM,
    within=40,
)
async def sealed_tail_not_read_again(self: WeakSealLoglet) -> Tail:
    """check_tail returns the tail that it read before it saw the bit."""
    tail = await self._tail()
    return Sealed(tail) if await self._is_sealed() else Open(tail)


@mutant(
    WeakSealLoglet.append,
    scenario="weak-seal",
    published="Delos, OSDI'20, section 3.4, and its erratum",
    found_by=["acknowledged below the stop", "sealed takes nothing"],
    within=40,
)
async def seal_checked_before_the_write(
    self: WeakSealLoglet, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None
) -> range:
    """append looks at the bit, then writes."""
    if await self._is_sealed():
        raise SealedError
    written = await self._call(self._entries, WeakSealWrite(batch, opens, expected_tail))
    return range(written.start, written.stop)


MUTANTS: Final[tuple[Mutant, ...]] = (seal_bit_before_tail, sealed_tail_not_read_again, seal_checked_before_the_write)

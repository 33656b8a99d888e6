"""Bugs of copies: what a moved loglet has, and what it need not have."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import Pace
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.native.drivers.rereplication import NativeRereplication
from virtuallog_loglets.striped.config import decode_untrusted
from virtuallog_loglets.striped.core.layout import StripedLayout, slots_below
from virtuallog_loglets.striped.provider import StripedProvider

LOST: Final = ("copies are whole", "healing", "acknowledged is readable", "reads without holes")

copy_once = NativeRereplication.run


@mutant(NativeRereplication.run, scenario="rebuilt", within=20, found_by=LOST)
async def copy_that_ends_one_place_early(self: NativeRereplication) -> None:
    """The stop is taken for the last place."""
    await copy_once(attrs.evolve(self, stop=max(0, self.stop - 1)))


@mutant(StripedProvider.replicate, scenario="rebuilt", within=20, found_by=LOST)
async def stripes_copied_up_to_an_even_share(
    self: StripedProvider,
    segment: SegmentId,
    config: bytes,
    target: bytes,
    stop: LogletOffset,
    environment: Environment,
    pace: Pace,
    lost: Collection[NodeId] = (),
) -> None:
    """Slots that do not divide by the stripes are dropped: the first stripes have one entry more."""
    former, latter = decode_untrusted(config), decode_untrusted(target)
    provider, stripes = self._stripes(former), len(former.stripes)
    end = LogletOffset(slots_below(stop) // stripes)
    for number, part in enumerate(former.parts(segment)):
        await provider.replicate(part, former.stripes[number], latter.stripes[number], end, environment, pace, lost)


@mutant(StripedProvider.replicate, scenario="rebuilt", within=20, found_by=LOST)
async def only_the_first_stripe_is_copied(
    self: StripedProvider,
    segment: SegmentId,
    config: bytes,
    target: bytes,
    stop: LogletOffset,
    environment: Environment,
    pace: Pace,
    lost: Collection[NodeId] = (),
) -> None:
    """The others are believed to be where they were."""
    former, latter = decode_untrusted(config), decode_untrusted(target)
    end = LogletOffset(StripedLayout(len(former.stripes)).places_below(0, slots_below(stop)))
    part, stripe, moved = former.parts(segment)[0], former.stripes[0], latter.stripes[0]
    await self._stripes(former).replicate(part, stripe, moved, end, environment, pace, lost)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))

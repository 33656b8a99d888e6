"""Trim of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

import attrs

from virtuallog.admin.control import PrefixTrim
from virtuallog.node_services import ask_one_of
from virtuallog_console.actions.contract import Action, ActionPlan, FormField, PlanPart
from virtuallog_console.pages.page_query import PageQuery
from virtuallog_console.views.holds import HoldsView, TrimEffect, describe_trim, read_holds

TRIM_SECONDS: Final = 30.0
"""Timeout of a node that trims, as on the command line."""


@attrs.frozen
class TrimAction(Action):
    """Drops the log below a position. What a database needs is never dropped: `force` is on the command line only."""

    name: ClassVar[str] = "trim"
    title: ClassVar[str] = "Trim"
    summary: ClassVar[str] = "Drop everything below a position, for good. Segments that this empties leave the chain."
    seconds: ClassVar[float] = 60.0

    async def fields(self) -> Sequence[FormField]:
        return [FormField(name="position", label="Trim to position", hint="the first position to keep")]

    async def plan(self, query: PageQuery) -> ActionPlan | None:
        position = query.number("position")
        if position is None:
            return None
        register = await self.log.view.refresh()
        view = await read_holds(self.log)
        effect = describe_trim(view, register, position)
        return ActionPlan(
            arguments={"position": str(position)},
            version=register.version,
            confirmation=f"trim {position}",
            parts=tuple(_parts(effect)),
            refusals=tuple(_refusals(view, effect)),
        )

    async def act(self, plan: ActionPlan, tell: Callable[[str], None]) -> str:
        request = PrefixTrim(position=int(plan.arguments["position"]))
        nodes = sorted((await self.log.view.current()).nodes)
        trimmed = await ask_one_of(self.log.view.environment.services, nodes, request, TRIM_SECONDS)
        return f"the log begins at {trimmed.position:,}"


def _parts(effect: TrimEffect) -> Iterator[PlanPart]:
    dropped = effect.dropped
    if dropped:
        lines = [f"{len(dropped):,} positions: {dropped.start:,} to {dropped.stop - 1:,}"]
        for each in effect.segments:
            what = "all of the" if each.is_whole else "a part of the"
            end = "; it leaves the chain" if each.is_whole else ""
            lines.append(
                f"{what} {each.kind} segment {each.id}: {each.positions.start:,} to {each.positions.stop - 1:,}{end}"
            )
        yield PlanPart.of("Dropped", lines)
    if effect.hurts:
        yield PlanPart.of("Needed by", [f"{each.kind} {each.name}, from {each.position:,} on" for each in effect.hurts])


def _refusals(view: HoldsView, effect: TrimEffect) -> Iterator[str]:
    if effect.refusal:
        yield effect.refusal
    if effect.problem:
        yield f"the effect is not known for sure: {effect.problem}"
    if view.tail is not None and effect.position > view.tail:
        yield f"the tail is {view.tail:,}: entries that are not there yet would be dropped"
    elif not effect.dropped:
        yield "there is nothing to drop below this position"

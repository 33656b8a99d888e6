"""Archiving of a closed segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import Register
from virtuallog_console.actions.contract import Action, ActionPlan, FormField, PlanPart
from virtuallog_console.pages.page_query import PageQuery, PageQueryError
from virtuallog_loglets.archive.config import GRACE_SECONDS, directory_of, join
from virtuallog_loglets.archive.creation.segment_archive import archive_segment, can_be_archived


@attrs.frozen
class ArchiveAction(Action):
    """Writes a closed segment to the place of the settings: a caller names no URL, as this process would write there."""

    name: ClassVar[str] = "archive"
    title: ClassVar[str] = "Archive"
    summary: ClassVar[str] = (
        "Keep a closed segment as Parquet files elsewhere, instead of on nodes. `virtuallog archive --undo` puts it back."
    )
    seconds: ClassVar[float] = 6 * 3600.0

    url: str
    """Parent of all archives. Empty if there is none."""

    async def fields(self) -> Sequence[FormField]:
        chain = (await self.log.view.refresh()).chain
        options = [
            (str(each.id), f"{each.kind} {each.start:,} to {each.stop:,}, {each.id}")
            for each in chain.segments
            if can_be_archived(each)
        ]
        return [FormField(name="segment", label="Closed segment", options=options)] if options else []

    async def plan(self, query: PageQuery) -> ActionPlan | None:
        text = query.text("segment")
        if not text:
            return None
        register = await self.log.view.refresh()
        segment = _find(register, text)
        plan = ActionPlan(
            arguments={"segment": str(segment.id), "url": self.url},
            version=register.version,
            confirmation=f"archive {segment.start} to {segment.stop}",
        )
        if not self.url:
            return attrs.evolve(plan, refusals=("console.toml names no place for archives: set `archives` to a URL",))
        if not can_be_archived(segment) or segment.stop is None:
            return attrs.evolve(plan, refusals=(f"segment {segment.id} is open, empty, or an archive",))
        size, place = segment.stop - segment.start, directory_of(register.cluster.hex(), segment.start, segment.stop)
        before = (
            f"the {segment.kind} segment {segment.id} has {size:,} positions: {segment.start:,} to {segment.stop - 1:,}"
        )
        after = (
            f"this console writes {join(self.url, place)}, reads it back and compares",
            "a node looks at the archive, and puts it into the chain in the place of the segment",
            f"nodes drop their copies after {GRACE_SECONDS / 3600:g} h; until then it can be undone",
            "reads and trims go on as before, and the rest of the chain stays as it is",
        )
        return attrs.evolve(
            plan, parts=(PlanPart(title="Before", lines=(before,)), PlanPart(title="After", lines=after))
        )

    async def act(self, plan: ActionPlan, tell: Callable[[str], None]) -> str:
        segment = _find(await self.log.view.current(), plan.arguments["segment"])
        made, _ = await archive_segment(
            self.log, segment, self.url, GRACE_SECONDS, lambda what, position: tell(f"{what}, at {position:,}")
        )
        found = made.verified
        return f"{found.entries:,} entries in {found.files:,} files, {found.bytes:,} bytes, at {made.config.location}"


def _find(register: Register, text: str) -> Segment:
    try:
        segment = register.chain.find(SegmentId.parse(text))
    except InvalidSettingError as error:
        raise PageQueryError(f"{error}.") from error
    if segment is None:
        raise PageQueryError(f"The chain has no segment {text[:60]} any more.")
    return segment

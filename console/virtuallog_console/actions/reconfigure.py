"""Reconfiguration: the log goes on on a new loglet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import ChainConflictError, VirtualLogError
from virtuallog.contract.provider import SupportsPreflight, SupportsSettings
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.chain_writer import nodes_of
from virtuallog_console.actions.contract import Action, ActionPlan, FormField, PlanPart
from virtuallog_console.pages.page_query import PageQuery, PageQueryError
from virtuallog_console.views.log_bounds import find_bounds


@attrs.frozen
class ReconfigureAction(Action):
    """Seals the active segment and continues on a new one. The put is conditional on the version of the plan."""

    name: ClassVar[str] = "reconfigure"
    title: ClassVar[str] = "Reconfigure"
    summary: ClassVar[str] = (
        "Seal the active segment, and let the log go on on a new one, of the same or of another kind."
    )
    seconds: ClassVar[float] = 60.0
    needs_intent: ClassVar[bool] = False

    async def fields(self) -> Sequence[FormField]:
        known = {
            kind: provider.settings
            for kind, provider in self.log.view.providers.items()
            if isinstance(provider, SupportsSettings)
        }
        kinds = {*known, (await self.log.view.current()).chain.last.kind}
        return [
            FormField(name="kind", label="Kind of the new segment", options=[(kind, kind) for kind in sorted(kinds)]),
            FormField(
                name="settings",
                label="Settings",
                hint="one name=value on each line; without any, the defaults",
                notes=[f"{kind}: {name}={meaning}" for kind in sorted(known) for name, meaning in known[kind].items()],
                is_long=True,
                is_needed=False,
            ),
        ]

    async def plan(self, query: PageQuery) -> ActionPlan | None:
        kind = query.text("kind")
        if not kind:
            return None
        settings = parse_settings(query.text("settings"))
        register = await self.log.view.refresh()
        bounds = await find_bounds(self.log)
        plan = ActionPlan(
            arguments={"kind": kind, "settings": "\n".join(f"{name}={value}" for name, value in settings.items())},
            version=register.version,
            confirmation=f"reconfigure {kind}",
        )
        try:
            provider = self.log.view.provider(kind)
            config = await self.log.chain_writer.plan(provider, settings, register)
            nodes = nodes_of(provider, config)
        except VirtualLogError as error:
            return attrs.evolve(plan, parts=(self._before(register, bounds.tail),), refusals=(str(error),))
        lines = [
            f"a new {kind} segment takes the appends from there on{_on(nodes)}",
            *(f"{name}: {_plain(value)}" for name, value in provider.describe(config).items()),
        ]
        if isinstance(provider, SupportsPreflight):
            lines.append("its storage is tried before anything is sealed, not in this dry run")
        out = sorted(node for node, entry in register.nodes.items() if not entry.roles)
        if out:
            lines.append(f"drained nodes, which are not used: {', '.join(map(str, out))}")
        return attrs.evolve(plan, parts=(self._before(register, bounds.tail), PlanPart.of("After", lines)))

    async def act(self, plan: ActionPlan, tell: Callable[[str], None]) -> str:
        settings = parse_settings(plan.arguments["settings"])
        try:
            register = await self.log.reconfig_extend(plan.arguments["kind"], settings, only_at=plan.version)
        except ChainConflictError:
            tell("another change has come first; the active segment may be sealed, and goes on as one of its kind")
            raise
        last = register.chain.last
        return f"the log goes on on the {last.kind} segment {last.id}, from position {last.start:,} on{_on(self._nodes(last))}"

    def _before(self, register: Register, tail: int | None) -> PlanPart:
        last = register.chain.last
        end = "the log was closed on purpose, and is opened again"
        if last.stop is None:
            end = f"it is sealed at its tail, {'which is not known' if tail is None else f'{tail:,} now'}; appends wait for a moment"
        name = f"the {last.kind} segment {last.id} has the positions from {last.start:,} on{_on(self._nodes(last))}"
        return PlanPart(title="Before", lines=(name, end))

    def _nodes(self, segment: Segment) -> frozenset[NodeId]:
        try:
            return nodes_of(self.log.view.provider(segment.kind), segment.config)
        except VirtualLogError:  # a kind or a config that this console does not know
            return frozenset()


def parse_settings(text: str) -> Mapping[str, str]:
    """Settings of a form, by name.

    Raises:
        PageQueryError: a line is no name=value, or a name is there twice.
    """
    settings: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip() or name.strip() in settings:
            raise PageQueryError(f"{line[:60]} is no setting. Write name=value, each name once.")
        settings[name.strip()] = value.strip()
    return settings


def _on(nodes: frozenset[NodeId]) -> str:
    return f", on nodes {', '.join(map(str, sorted(nodes)))}" if nodes else ""


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

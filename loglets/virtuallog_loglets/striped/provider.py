"""Provider of StripedLoglets: plans them, opens clients, moves closed ones. They have no roles of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, Pace, ReplicatedProvider, RetainedLoglets, ServerlessProvider
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.striped import diagnosis, planner
from virtuallog_loglets.striped.config import KIND, StripedConfig, decode_untrusted
from virtuallog_loglets.striped.core.layout import StripedLayout, slots_below
from virtuallog_loglets.striped.loglet import StripedLoglet


@attrs.define(eq=False)
class StripedProvider(ServerlessProvider):
    """`LogletProvider`, `ReplicatedProvider` and `CompositeProvider` of the striped kind
    (`virtuallog.contract.provider`)."""

    color: ClassVar = "violet"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {"striped": {"stripes": "2", "servers": "1,2,3"}}
    crash_area: ClassVar = "clients of a striped loglet"

    _providers: Mapping[str, LogletProvider] = attrs.field(factory=dict, init=False)

    @property
    def kind(self) -> str:
        return KIND

    @property
    def settings(self) -> Mapping[str, str]:
        """See `virtuallog.contract.provider.SupportsSettings`."""
        return planner.SETTINGS

    def over(self, providers: Mapping[str, LogletProvider]) -> None:
        """See `virtuallog.contract.provider.CompositeProvider`."""
        self._providers = providers

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        return planner.plan(self._providers, cluster, settings, previous).encode()

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        provider = self._providers.get(decoded.of)
        moved = {} if decoded.loglet is None else {"loglet": str(decoded.loglet)}
        stripes: list[Any] = [
            stripe.decode("latin-1") if provider is None else dict(provider.describe(stripe))
            for stripe in decoded.stripes
        ]
        return {**decoded.others, "of": decoded.of, "stripes": stripes, **moved}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        """Open a client of the loglet.

        Raises:
            UnknownKindError, UnsupportedError: loglets of the kind that the config names cannot be stripes.
            MalformedError: not a config of this kind.
        """
        decoded = decode_untrusted(config)
        provider = planner.kind_of_stripes(self._providers, decoded.of)
        stripes = [
            provider.open(part, stripe, environment)
            for part, stripe in zip(decoded.parts(segment), decoded.stripes, strict=True)
        ]
        return StripedLoglet(stripes, environment)

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.contract.provider.SupportsDiagnosis`."""
        decoded = decode_untrusted(config)
        provider = planner.kind_of_stripes(self._providers, decoded.of)
        return await diagnosis.explain(provider, decoded.parts(segment), decoded.stripes, environment)

    # -- what nodes keep, and closed loglets on other servers -------------------------------------------------------

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        decoded = decode_untrusted(config)
        return {
            part: (decoded.of, stripe) for part, stripe in zip(decoded.parts(segment), decoded.stripes, strict=True)
        }

    def placement(self, config: bytes) -> Placement:
        decoded = decode_untrusted(config)
        return planner.placement(self._stripes(decoded), decoded)

    def move(self, segment: SegmentId, config: bytes, servers: tuple[NodeId, ...]) -> bytes:
        decoded = decode_untrusted(config)
        return planner.move(self._stripes(decoded), segment, decoded, servers).encode()

    async def replicate(
        self,
        segment: SegmentId,
        config: bytes,
        target: bytes,
        stop: LogletOffset,
        environment: Environment,
        pace: Pace,
        lost: Collection[NodeId] = (),
    ) -> None:
        """Copy one stripe after the other, so that no more is under way at a time than for a single loglet."""
        former, latter = decode_untrusted(config), decode_untrusted(target)
        provider, layout = self._stripes(former), StripedLayout(len(former.stripes))
        for number, part in enumerate(former.parts(segment)):
            end = LogletOffset(layout.places_below(number, slots_below(stop)))
            stripe, moved = former.stripes[number], latter.stripes[number]
            await provider.replicate(part, stripe, moved, end, environment, pace, lost)

    def _stripes(self, config: StripedConfig) -> ReplicatedProvider:
        try:
            return planner.replicated_kind(self._providers, config.of)
        except VirtualLogError as error:
            raise MalformedError(f"the config of a striped loglet: {error}") from error

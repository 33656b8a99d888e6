"""Choice of the stripes of a new StripedLoglet, and moves of closed ones to other servers.

Each stripe is planned by the planner of its own kind, with its own wish for servers. Striping helps
if the stripes do not share what limits one loglet, which is the sequencer (Delos, section 4.2.2).
Two ways:

* rotating: all stripes are on the same servers, and their sequencers on as many nodes as there are;
* sharded: `groups=1,2,3;4,5,6`. Each stripe has its own servers, and stays apart when one fails
  (`core/stripe_placement.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract import placement as planning
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, UnknownKindError, UnsupportedError, VirtualLogError
from virtuallog.contract.placement import Cluster, Placement
from virtuallog.contract.provider import CompositeProvider, LogletProvider, ReplicatedProvider, replicated
from virtuallog.contract.types import NodeId
from virtuallog_loglets.striped.config import KIND, STRIPES_MAX, StripedConfig, decode_untrusted
from virtuallog_loglets.striped.core import stripe_placement

SEQUENCER: Final = "sequencer"
"""Role of nodes that can order; stripes take turns among them."""
OF_DEFAULT: Final = "native"
STRIPES_DEFAULT: Final = 2
"""Stripes of a loglet if neither the caller nor a former striped loglet says how many."""

SETTINGS: Final = {
    "stripes": f"how many loglets side by side; {STRIPES_DEFAULT} at first",
    "servers": "which nodes keep entries, such as 1,2,3: the same for each stripe",
    "groups": "servers of each stripe by itself, such as '1,2,3;4,5,6'",
    "replicas": "how many nodes keep the entries of a stripe, if none are named",
    "sequencers": "which nodes order; stripes take turns among them",
    "of": f"the kind of the stripes; {OF_DEFAULT}",
}
"""Settings that an operator may give, with help text."""
_PASSED_ON: Final = ("servers", "replicas")
"""Settings passed on to the planner of each stripe."""


def kind_of_stripes(providers: Mapping[str, LogletProvider], of: str) -> LogletProvider:
    """Provider of the stripes.

    Raises:
        UnknownKindError: it is not installed.
        UnsupportedError: loglets of this kind cannot be stripes.
    """
    provider = inner(providers, of)
    if not provider.contiguous:
        # The holes of a sparse stripe would be slots of the whole that no client ever fills.
        raise UnsupportedError(f"{of} loglets can be no stripes: between two entries there may be places without any")
    return provider


def replicated_kind(providers: Mapping[str, LogletProvider], of: str) -> ReplicatedProvider:
    """Provider of the stripes, which must be replicated on nodes.

    Raises:
        UnsupportedError: they are not.
    """
    found = replicated(kind_of_stripes(providers, of))
    if found is None:
        raise UnsupportedError(f"{of} loglets are no copies on nodes")
    return found


def plan(
    providers: Mapping[str, LogletProvider], cluster: Cluster, settings: Mapping[str, str], previous: bytes | None
) -> StripedConfig:
    """See `LogletProvider.plan`."""
    planning.check_names(KIND, settings, SETTINGS)
    former = decode_untrusted(previous) if previous is not None else None
    of = settings.get("of", former.of if former else OF_DEFAULT)
    provider = _settable(providers, of)
    former_stripes = former.stripes if former is not None and former.of == of else ()
    wishes = _wishes(settings, len(former_stripes))
    orders = _orders(cluster, settings)
    stripes: list[bytes] = []
    for number, wish in enumerate(wishes):
        # A sensible home for this stripe's sequencer is the node that is said to plan it.
        seen = attrs.evolve(cluster, planner=orders[number % len(orders)])
        known = number < len(former_stripes)
        if known and not wish:
            seen = _apart(replicated_kind(providers, of), seen, former_stripes, stripes)
        stripes.append(provider.plan(seen, wish, former_stripes[number] if known else None))
    return StripedConfig(of=of, stripes=tuple(stripes), others=former.others if former else {})


def move(
    provider: ReplicatedProvider, segment: SegmentId, config: StripedConfig, servers: Sequence[NodeId]
) -> StripedConfig:
    """Config of the closed loglet on other servers (see `ReplicatedProvider.move`). Every stripe
    replaces those of its own servers that leave."""
    former = placement(provider, config).servers
    chosen = set(servers)
    if len(chosen) != len(servers) or len(chosen) != len(former):
        raise InvalidSettingError("servers", f"needs {len(former)} different nodes, as before, not {list(servers)}")
    leaving, arriving = sorted(set(former) - chosen), sorted(chosen - set(former))
    successor = dict(zip(leaving, arriving, strict=True))
    stripes = []
    for part, stripe in zip(config.parts(segment), config.stripes, strict=True):
        latter = sorted(successor.get(server, server) for server in provider.placement(stripe).servers)
        stripes.append(provider.move(part, stripe, tuple(latter)))
    return attrs.evolve(config, stripes=tuple(stripes), loglet=config.loglet or segment)


def placement(provider: ReplicatedProvider, config: StripedConfig) -> Placement:
    """See `ReplicatedProvider.placement`."""
    placements = [provider.placement(stripe) for stripe in config.stripes]
    return Placement(
        groups=tuple(group for each in placements for group in each.groups),
        role=placements[0].role,
        sequencers=tuple(sequencer for each in placements for sequencer in each.sequencers),
    )


def _apart(
    provider: ReplicatedProvider, cluster: Cluster, former: Sequence[bytes], planned: Sequence[bytes]
) -> Cluster:
    """Cluster as the planner of the next stripe is to see it."""
    former_servers, chosen = ([_servers(provider, config) for config in configs] for configs in (former, planned))
    role = provider.placement(former[len(planned)]).role
    return stripe_placement.candidates(cluster, role, len(planned), former_servers, chosen)


def _servers(provider: ReplicatedProvider, config: bytes) -> frozenset[NodeId]:
    return frozenset(provider.placement(config).servers)


def _settable(providers: Mapping[str, LogletProvider], of: str) -> LogletProvider:
    try:
        replicated_kind(providers, of)
        return kind_of_stripes(providers, of)
    except VirtualLogError as error:
        raise InvalidSettingError("of", str(error)) from error


def _wishes(settings: Mapping[str, str], former: int) -> list[dict[str, str]]:
    """Settings for the planner of each stripe."""
    shared = {name: settings[name] for name in _PASSED_ON if name in settings}
    if "groups" in settings:
        if "servers" in settings:
            raise InvalidSettingError("servers", "says the same as groups: set one of the two")
        wishes = [{**shared, "servers": group} for group in settings["groups"].split(";")]
    else:
        wishes = [shared] * _count(settings, former)
    if "stripes" in settings and _count(settings, former) != len(wishes):
        raise InvalidSettingError("stripes", f"{settings['stripes']}, but there are {len(wishes)} groups of servers")
    if len(wishes) > STRIPES_MAX:
        raise InvalidSettingError("groups", f"at most {STRIPES_MAX}, not {len(wishes)}")
    return wishes


def _count(settings: Mapping[str, str], former: int) -> int:
    if "stripes" not in settings:
        return former or STRIPES_DEFAULT
    count = planning.parse_number("stripes", settings["stripes"])
    if not 1 <= count <= STRIPES_MAX:
        raise InvalidSettingError("stripes", f"must be between 1 and {STRIPES_MAX}, not {count}")
    return count


def _orders(cluster: Cluster, settings: Mapping[str, str]) -> list[NodeId]:
    """Nodes that order the stripes, in turn."""
    if "sequencers" in settings:
        nodes = [planning.parse_node("sequencers", part) for part in settings["sequencers"].split(",")]
        return [planning.living("sequencers", cluster, node, SEQUENCER).node for node in nodes]
    able = planning.able(cluster, SEQUENCER)
    if not able:
        raise InvalidSettingError("sequencers", f"no node with role {SEQUENCER} answers")
    return [member.node for member in able]


def inner(providers: Mapping[str, LogletProvider], kind: str) -> LogletProvider:
    """Return the provider of a kind that composite loglets may consist of.

    Raises:
        UnknownKindError: the kind is not installed.
        UnsupportedError: the kind is composite itself.
    """
    provider = providers.get(kind)
    if provider is None:
        raise UnknownKindError(kind, ", ".join(sorted(providers)))
    if isinstance(provider, CompositeProvider):
        raise UnsupportedError(f"a loglet cannot consist of {kind} loglets, which consist of others themselves")
    return provider

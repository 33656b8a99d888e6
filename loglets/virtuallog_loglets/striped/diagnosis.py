"""Evidence about a striped loglet: each stripe's own, in offsets of the whole, and the stripe with
the first hole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.diagnosis import COMBINED, Evidence
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, SupportsDiagnosis
from virtuallog_loglets.striped.core.layout import StripedLayout, offset_of
from virtuallog_loglets.striped.drivers.fan_out import ask_all

_OFFSETS = ("tail", "known_tail", "trim")
"""Facts that are places in a stripe."""


async def explain(
    provider: LogletProvider, parts: Sequence[SegmentId], configs: Sequence[bytes], environment: Environment
) -> list[Evidence]:
    """See `SupportsDiagnosis.explain`."""
    if not isinstance(provider, SupportsDiagnosis):
        return []
    answers = await ask_all(
        {
            number: partial(provider.explain, part, config, environment)
            for number, (part, config) in enumerate(zip(parts, configs, strict=True))
        }
    )
    layout = StripedLayout(len(parts))
    evidence, wholes = list[Evidence](), list[Mapping[str, Any]]()
    for number, answer in answers.items():
        if isinstance(answer, VirtualLogError):
            evidence.append(Evidence(f"stripe {number}", {}, str(answer)))
            wholes.append({})
            continue
        told = [_of_the_whole(layout, number, piece) for piece in answer]
        evidence += [piece for piece in told if piece.source != COMBINED]
        wholes.append(next((piece.facts for piece in told if piece.source == COMBINED), {}))
    return [*evidence, Evidence(COMBINED, evidence_of_whole(wholes))]


def evidence_of_whole(wholes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Facts about the loglet as a whole, combined from those of each stripe as a whole."""
    tails, trims, spares = ([whole.get(name) for whole in wholes] for name in ("tail", "trim", "spare"))
    facts: dict[str, Any] = {
        "tail": _least(tails),
        "undecided": sum(whole.get("undecided", 0) for whole in wholes),
        "sealed": _sealed([whole.get("sealed") for whole in wholes]),
        "trim": _least(trims),
        "spare": _least(spares),
        "orders": [order for whole in wholes for order in whole.get("orders", ())],
        "stripe tails": tails,
    }
    if facts["tail"] is not None:
        first = tails.index(facts["tail"])
        facts["first hole"] = f"stripe {first}"
        facts["by"] = list(wholes[first].get("by", ()))
    return {name: fact for name, fact in facts.items() if fact is not None or name in {"tail", "sealed", "trim"}}


def _of_the_whole(layout: StripedLayout, stripe: int, piece: Evidence) -> Evidence:
    facts = dict(piece.facts)
    for name in _OFFSETS:
        # If one stripe has dropped nothing, nothing is dropped: not what comes before its first
        # slot either.
        if facts.get(name) is not None and (name != "trim" or facts[name] > 0):
            facts[name] = offset_of(layout.slot(stripe, facts[name]))
    if "by" in facts:
        facts["by"] = [f"stripe {stripe}, {source}" for source in facts["by"]]
    source = COMBINED if piece.source == COMBINED else f"stripe {stripe}, {piece.source}"
    return attrs.evolve(piece, source=source, facts=facts)


def _least(facts: Sequence[Any]) -> Any:
    return None if None in facts else min(facts)


def _sealed(bits: Sequence[bool | None]) -> bool | None:
    """Seal state of the whole: True, False, or None if undecided.

    A sealed stripe takes no more, but appends under way at the others may still be acknowledged.
    """
    return True if all(bits) else False if all(bit is False for bit in bits) else None

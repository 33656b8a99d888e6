"""The config of a StripedLoglet in the chain: JSON, so that it outlives every binary.                                   Pure.

    {"of": "native", "stripes": ["{\\"servers\\": [1, 2, 3], ...}", "{\\"servers\\": [1, 2, 3], ...}"]}
    {"of": "native", "stripes": [...], "loglet": "12.5fe7a0"}                 closed, and moved to another set of servers

Stripes are loglets of their own, all of one kind, each with a config of that kind; a stripe's number is its place in the list.
The config of a kind is bytes that only the kind understands: here it is text, a character for each byte. Fields that this
program does not know are kept as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError

KIND: Final = "striped"
STRIPES_MAX: Final = 64
"""Every seal, tail check and long read asks all stripes at once; the paper saw throughput grow up to about 40."""

_KNOWN: Final = ("of", "stripes", "loglet")
_ATTEMPTS: Final = 1 << 63
"""Attempts are numbers below (`SegmentId`)."""


@attrs.frozen(kw_only=True)
class StripedConfig:
    """Which loglets are the stripes."""

    of: str
    """The kind of them all."""
    stripes: tuple[bytes, ...]
    """Their configs."""
    loglet: SegmentId | None = None
    """What the ids of the stripes are made of, if it is not the id of the segment."""
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, kept."""

    def parts(self, segment: SegmentId) -> tuple[SegmentId, ...]:
        """The ids of the stripes: made of the version of their segment, which no other loglet of the chain has, so that they
        collide with nothing."""
        origin = self.loglet or segment
        return tuple(
            SegmentId(origin.version, (origin.attempt + 1 + stripe) % _ATTEMPTS) for stripe in range(len(self.stripes))
        )

    def encode(self) -> bytes:
        known: dict[str, Any] = {"of": self.of, "stripes": [config.decode("latin-1") for config in self.stripes]}
        if self.loglet is not None:
            known["loglet"] = str(self.loglet)
        return json.dumps({**self.others, **known}, sort_keys=True).encode()


def decode_untrusted(blob: bytes) -> StripedConfig:
    """The config in `blob`.

    Raises:
        MalformedError: not a config of a StripedLoglet.
    """
    try:
        fields = json.loads(blob)
        stripes = tuple(text.encode("latin-1") for text in fields["stripes"])
        loglet = SegmentId.parse(fields["loglet"]) if "loglet" in fields else None
        of = fields["of"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidSettingError) as error:
        raise MalformedError(f"not the config of a striped loglet: {blob[:100]!r}") from error
    if not isinstance(of, str) or not 1 <= len(stripes) <= STRIPES_MAX:
        raise MalformedError(f"the config of a striped loglet lists {len(stripes)} stripes of kind {of!r}")
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    return StripedConfig(of=of, stripes=stripes, loglet=loglet, others=others)

r"""Config of a StripedLoglet in the chain: JSON, so that it outlives every binary.

    {"of": "native", "stripes": ["{\"servers\": [1, 2, 3], ...}", "{\"servers\": [1, 2, 3], ...}"]}
    {"of": "native", "stripes": [...], "loglet": "12.5fe7a0"}                 closed, and moved to another set of servers

Stripes are loglets of their own, all of one kind, each with a config of that kind. A stripe's
number is its position in the list. Only the kind understands the bytes of its configs: here they
are text, one character per byte. Unknown fields are preserved.
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
"""Most stripes. Every seal, tail check and long read asks all stripes at once; the paper saw
throughput grow up to about 40."""

_KNOWN: Final = ("of", "stripes", "loglet")
_ATTEMPTS: Final = 1 << 63
"""Exclusive upper bound of attempt numbers (`SegmentId`)."""


@attrs.frozen(kw_only=True)
class StripedConfig:
    """Stripes of a loglet."""

    of: str
    """Kind of all stripes."""
    stripes: tuple[bytes, ...]
    """Configs of the stripes."""
    loglet: SegmentId | None = None
    """Id from which the ids of the stripes are derived; None if it is the id of the segment."""
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, preserved on encoding."""

    def parts(self, segment: SegmentId) -> tuple[SegmentId, ...]:
        """Ids of the stripes.

        They have the version of their segment, which no other loglet of the chain has, so they
        collide with nothing.
        """
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
    """Decode the config in `blob`.

    Raises:
        MalformedError: `blob` is not a config of a StripedLoglet.
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

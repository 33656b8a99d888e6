"""How observations are written as text, and read again.                                                             Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping


def digests_text(digests: Mapping[str, str]) -> str:
    """Equal digests are equal texts, so Spark can compare them."""
    return json.dumps(dict(digests), sort_keys=True, separators=(",", ":"))


def digests_of(text: str) -> dict[str, str]:
    """What `digests_text` wrote."""
    found: dict[str, str] = json.loads(text)
    return found

"""Text forms of digests in observations, and of sizes and times for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")
_LENGTHS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def digests_text(digests: Mapping[str, str]) -> str:
    """Digests as text. Equal digests are equal texts, so Spark can compare them."""
    return json.dumps(dict(digests), sort_keys=True, separators=(",", ":"))


def digests_of(text: str) -> dict[str, str]:
    """Parse a text of `digests_text`."""
    found: dict[str, str] = json.loads(text)
    return found


def size_text(size: int) -> str:
    """A size such as "812 bytes" and "1.5 MB", in powers of a thousand."""
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if not unit or value >= 100 else f"{value:.1f} {_UNITS[unit]}"


def span_text(milliseconds: int) -> str:
    """A duration such as "30 seconds" and "an hour", in whole seconds."""
    seconds = milliseconds // 1000
    name, length = next((name, length) for name, length in _LENGTHS if seconds % length == 0)
    count = seconds // length
    return f"{count} {name}s" if count > 1 else f"{'an' if name == 'hour' else 'a'} {name}"

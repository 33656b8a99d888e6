"""Values as text for readers: no character that hides, reorders or ends what stands around it.

Names of znodes, payloads and reasons are made by others. A template escapes them for HTML; here the characters are replaced that a
reader cannot see, or that change the order of others: an override of the writing direction makes `/app/txt.exe` out of another name.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from virtuallog_console.views.values import readable

_CONTROL: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTION: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE: Final = "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
_TAGS: Final = "\U000e0000-\U000e0fff"
_HIDDEN: Final = re.compile(f"[{_CONTROL}{_DIRECTION}{_INVISIBLE}{_TAGS}]")
_LINE_END: Final = re.compile("[\t\n]")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP: Final = 1024


def shown(value: object) -> str:
    """A text on one line, in which each character can be seen: the others are `\\u202e` and the like."""
    text = _HIDDEN.sub(_escape, readable(str(value)))
    return _LINE_END.sub(_escape, text)


def shown_lines(value: object) -> str:
    """The same, with the ends of lines and the tabs that it has."""
    text = readable(str(value))
    return _HIDDEN.sub(_escape, text) if _HIDDEN.search(text) else text


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


class Html(str):
    """A text that templates take as HTML. Made of our own characters alone."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def when(time_ms: float) -> Html:
    """A time as `<time>`, in UTC. One that no calendar has is a number of milliseconds."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except (OverflowError, ValueError):
        return Html(f"{float(time_ms):.0f} ms since 1970")
    text = moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return Html(f'<time datetime="{text.replace(" ", "T")}Z">{text} UTC</time>')


def parse_time(text: str) -> int:
    """Milliseconds since the epoch of a time in ISO 8601. Without a zone it is UTC.

    Raises:
        ValueError: it is none, or before the epoch.
    """
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    time_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    if time_ms < 0:
        raise ValueError("it is before 1970")
    return time_ms


def size(count: int) -> str:
    """A number of bytes: 1 byte, 4,000 bytes, 1.5 MiB."""
    if count == 1:
        return "1 byte"
    value, unit = float(count), 0
    if count >= 10 * _STEP:
        while value >= _STEP and unit < len(_UNITS) - 1:
            value, unit = value / _STEP, unit + 1
    return f"{value:,.1f} {_UNITS[unit]}" if unit else f"{count:,} bytes"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 entry`, `2 entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def number(value: object) -> str:
    """A number with separators, and `not known` for None."""
    if value is None:
        return "not known"
    return f"{value:,}" if isinstance(value, int | float) else shown(value)

"""StripedLoglet: many loglets side by side as one, so that no single one limits it (Delos, section 4.2.2).

It only calls other loglets. `layout.py` says what is where; `progress.py` and `filling.py` decide when an append may be acknowledged
and what it takes; `waiting.py` does it. docs/internals/protocols/striped.md has the rules and what happens without them.
"""

from virtuallog_loglets.striped.provider import StripedProvider

__all__ = ["StripedProvider"]

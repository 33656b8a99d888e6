"""How much of a loglet travels, and is written, in one piece."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Pieces:
    """Sizes in bytes. The WAL of every LogServer must take each piece whole, or an append or a repair never ends: a wave
    is one record, a repair one append (see `WalSettings`)."""

    wave_bytes: int = 1 << 20
    """A wave takes queued batches until it would exceed this; one larger batch may."""
    repair_bytes: int = 4 << 20
    """How much is fetched and repaired in one step; one larger wave may be. Clients and servers agree on it by default."""

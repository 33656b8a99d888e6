"""A node as `tests.zookeeper_parity` starts it that writes down for how long its event loop stood: to `stops` in its folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.hostile.event_loop_stalls import recorded
from tests.interop.node import main

STOPS: Final = "stops"

if __name__ == "__main__":
    with recorded(Path(sys.argv[sys.argv.index("--folder") + 1]) / STOPS):
        main()

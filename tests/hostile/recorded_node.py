"""A node as `tests.interop` starts it, with a record of its event loop's stalls: in the file `stops` in its folder."""

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

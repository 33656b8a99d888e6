"""Processes under test that start others: all of a tree are ended together."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import psutil

END_SECONDS: Final = 30.0


def kill_tree(pid: int) -> None:
    """Kill a process and all that it has started with `kill -9`; return once they are gone."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
        for each in tree:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        _, alive = psutil.wait_procs(tree, END_SECONDS)
        assert alive == []

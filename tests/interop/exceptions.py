"""Tests of kazoo's suite that pass with ZooKeeper 3.8 and not here, each with its reason; docs/reference/zookeeper.md prints them.

`kazoo_suite.py` fails if another one does, and if one of these passes: then its reason is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXCEPTIONS: Final[Mapping[str, str]] = {}

"""Where a page comes from: what is said at its foot."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version


def made_now() -> str:
    """When, and by which version."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, virtuallog {version('virtuallog')}"


def this_command() -> str:
    """As it was given, to be given again."""
    return shlex.join(["virtuallog", *sys.argv[1:]])

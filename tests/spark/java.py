"""Java for tests, installed if it is missing and may be."""

from __future__ import annotations

from pyspark_virtuallog import java
from tests.debian import require
from virtuallog.contract.errors import UnsupportedError


def require_java() -> None:
    """Skip the test, loudly, if there is no Java here and none can be had."""
    require("Java", _is_installed, "default-jre-headless")


def _is_installed() -> bool:
    try:
        java.require_java()
    except UnsupportedError:
        return False
    return True

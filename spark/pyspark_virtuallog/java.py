"""Check for Java, which Spark runs on and which comes from the machine. Made before Spark's own:
its error names no remedy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from virtuallog.contract.errors import UnsupportedError

JAVA_MIN: Final = 17
"""Oldest Java that Spark 4 accepts."""
REMEDY: Final = (
    f"Spark needs Java {JAVA_MIN} or newer: install it (Debian: sudo apt-get install default-jre-headless), "
    "or set JAVA_HOME"
)
_ANSWER_SECONDS: Final = 60
"""Timeout of `java -version`. A JVM answers in a fraction of a second; busy machines stall for
some."""


def require_java(environment: Mapping[str, str] = os.environ) -> None:
    """Return if there is a Java that Spark can use.

    Raises:
        UnsupportedError: there is none; the error says what to install.
    """
    java = find_java(environment)
    if java is None:
        raise UnsupportedError(f"there is no Java here. {REMEDY}")
    version = _version(java)
    if version is None or version < JAVA_MIN:
        raise UnsupportedError(f"{java} is Java {version or '?'}. {REMEDY}")


def find_java(environment: Mapping[str, str]) -> Path | None:
    """The `java` that Spark would start: of JAVA_HOME if that is set, else the first of PATH. None
    if there is none."""
    if home := environment.get("JAVA_HOME"):
        java = Path(home, "bin", "java")
        return java if os.access(java, os.X_OK) else None
    found = shutil.which("java", path=environment.get("PATH", ""))
    return Path(found) if found else None


def parse_version(text: str) -> int | None:
    """Major version in the output of `java -version`: 17 of `openjdk version "17.0.15" 2025-04-15`,
    8 of "1.8.0_372". None if not found."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _version(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout)

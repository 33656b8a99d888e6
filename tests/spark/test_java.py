"""Java comes from the machine: a missing or an old one is said before Spark fails over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_virtuallog.java import parse_version, require_java
from virtuallog.contract.errors import UnsupportedError


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_372"', 8),
        ("command not found", None),
    ],
)
def test_a_version_is_read_from_what_java_says_of_itself(text: str, version: int | None) -> None:
    """The version is read from Java's own text, also from that of Java 8, which was called 1.8."""
    assert parse_version(text) == version


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    """JAVA_HOME goes before PATH, as it does for Spark."""
    with pytest.raises(UnsupportedError, match=r"no Java here.*apt-get install"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(UnsupportedError, match="no Java here"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_an_old_java_is_not_taken(tmp_path: Path) -> None:
    """Spark would die of it with a class file version."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)

    with pytest.raises(UnsupportedError, match="is Java 11"):
        require_java({"PATH": str(tmp_path)})

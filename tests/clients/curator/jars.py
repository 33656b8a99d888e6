"""Curator as Debian packages it, and Java programs that use it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from tests.clients.builds import run
from tests.clients.client_program import Command
from tests.debian import require
from tests.zookeeper_server import require_zookeeper
from virtuallog_lab.harness.zookeeper_ensemble import JAR_NAMES, JARS

CURATOR: Final = ("curator-client.jar", "curator-framework.jar", "curator-recipes.jar", "guava.jar", "slf4j-api.jar")
LOGGER: Final = "slf4j-simple.jar"
"""Writes what the libraries log to stderr."""


def require_curator() -> None:
    """Skip the test, loudly, if Curator or a compiler is not here, and cannot be had."""
    require_zookeeper()
    require(
        "Curator",
        lambda: shutil.which("javac") is not None and all((JARS / name).exists() for name in (*CURATOR, LOGGER)),
        "libcurator-recipes-java", "libcurator-framework-java", "libcurator-client-java", "libslf4j-java", "default-jdk-headless",
    )  # fmt: skip


def build(sources: Path, main: str, folder: Path) -> Command:
    """Compile all sources of a folder; returns the command that runs one of them."""
    require_curator()
    names = [*JAR_NAMES, *CURATOR]
    names = [LOGGER if name.startswith("slf4j-log4j") else name for name in names if not name.startswith("log4j")]
    jars = os.pathsep.join([str(folder), *(str(JARS / name) for name in names)])
    run(
        [
            "javac",
            "-Xlint:all,-deprecation,-try,-path",
            "-Werror",
            "-d",
            folder,
            "-cp",
            jars,
            *sorted(sources.glob("*.java")),
        ]
    )
    options = [
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    return ["java", *options, "-cp", jars, main]

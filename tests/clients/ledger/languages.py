"""The languages that have a ledger: each program is built from its source beside this module, in a folder of the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from tests.clients.builds import run
from tests.clients.client_program import Command
from tests.debian import require
from tests.zookeeper_server import require_zookeeper
from virtuallog_lab.harness.zookeeper_ensemble import JAR_NAMES, JARS

SOURCES: Final = Path(__file__).parent
GO_PATH: Final = Path("/usr/share/gocode")
"""Folder of the Go packages of Debian."""
NODE_CLIENT: Final = "node-zookeeper-client@1.1.3"


@attrs.frozen
class Language:
    """One client library."""

    client: str
    """Name of the library in the table."""
    build: Callable[[Path], Command]
    """Builds the program in a folder; returns the command that runs it. Skips the test if the client cannot be had."""


def build_c(folder: Path) -> Command:
    require(
        "ZooKeeper's client in C",
        lambda: shutil.which("gcc") is not None and Path("/usr/include/zookeeper/zookeeper.h").exists(),
        "libzookeeper-mt-dev", "gcc", "libc6-dev",
    )  # fmt: skip
    program = folder / "ledger"
    run(
        [
            "gcc",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-o",
            program,
            SOURCES / "ledger.c",
            "-lzookeeper_mt",
            "-lpthread",
        ]
    )
    return [program]


def build_go(folder: Path) -> Command:
    require(
        "ZooKeeper's client in Go",
        lambda: shutil.which("go") is not None and (GO_PATH / "src/github.com/samuel/go-zookeeper").exists(),
        "golang-go", "golang-github-samuel-go-zookeeper-dev",
    )  # fmt: skip
    program = folder / "ledger"
    environment = {"GO111MODULE": "off", "GOPATH": str(GO_PATH), "GOCACHE": str(folder / "cache"), "GOFLAGS": ""}
    run(["go", "build", "-o", program, SOURCES / "ledger.go"], environment)
    return [program]


def build_java(folder: Path) -> Command:
    require_zookeeper()
    require("Java's compiler", lambda: shutil.which("javac") is not None, "default-jdk-headless")
    jars = os.pathsep.join([str(folder), *(str(JARS / name) for name in (*JAR_NAMES, "slf4j-api.jar"))])
    run(["javac", "-Xlint:all,-path", "-Werror", "-d", folder, "-cp", jars, SOURCES / "Ledger.java"])
    return ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, "Ledger"]


def build_node(folder: Path) -> Command:
    require("Node", lambda: shutil.which("node") is not None and shutil.which("npm") is not None, "nodejs", "npm")
    shutil.copy(SOURCES / "ledger.js", folder)
    run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, NODE_CLIENT])
    return ["node", folder / "ledger.js"]


LANGUAGES: Final = {
    "c": Language("C, libzookeeper_mt 3.8", build_c),
    "go": Language("Go, samuel/go-zookeeper", build_go),
    "java": Language("Java 3.8", build_java),
    "node": Language("Node, node-zookeeper-client", build_node),
}

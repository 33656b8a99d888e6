"""Members of a Patroni cluster on loopback: each is Patroni and the PostgreSQL that it runs, both as Debian packages them.

PostgreSQL refuses to run as root, so members run as `postgres` then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import psutil
import yaml  # type: ignore[import-untyped]

from tests.clients.process_trees import kill_tree
from tests.debian import require
from tests.free_ports import free_ports
from virtuallog_server.local_cluster.layout import HOST

PACKAGES: Final = ("patroni", "python3-kazoo", "postgresql")
VERSIONS: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"
"""The user of PostgreSQL on Debian, and the super user of a new database."""
SCOPE: Final = "story"
"""Name of the Patroni cluster: it lives in /service/SCOPE."""
TTL_SECONDS: Final = 20
"""Timeout of the sessions; Patroni's default is 30."""
LOOP_SECONDS: Final = 5
"""Time from one look of Patroni at its cluster to the next; and how long it repeats a request. By default 10."""


def require_patroni() -> None:
    """Skip the test, loudly, if there is no Patroni or PostgreSQL here and none can be had."""
    require("Patroni", _is_installed, *PACKAGES)


def _is_installed() -> bool:
    return shutil.which("patroni") is not None and bool(_programs())


def _programs() -> list[Path]:
    """Folders of the programs of each version of PostgreSQL, the newest last."""
    return sorted(VERSIONS.glob("*/bin"))


@attrs.define(eq=False)
class Member:
    """A member keeps its data while it is killed."""

    name: str
    folder: Path
    log: Path
    sql_port: int
    rest_port: int
    _process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        """Connection string of libpq for the PostgreSQL of this member alone."""
        return f"host={HOST} port={self.sql_port} user={USER} dbname=postgres connect_timeout=2"

    @property
    def pid(self) -> int:
        """Process id of its Patroni."""
        assert self._process is not None
        return self._process.pid

    def write_config(self, zookeeper: Sequence[str]) -> None:
        """Write the file that Patroni reads.

        Args:
            zookeeper: addresses of its servers.
        """
        (self.folder / "patroni.yml").write_text(yaml.safe_dump(self._config(zookeeper)))

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL; return at once."""
        command = [*_as_user(), "/usr/bin/patroni", str(self.folder / "patroni.yml")]
        environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
        }  # Debian's Python, not that of the tests
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def kill(self) -> None:
        """Kill Patroni and all processes of PostgreSQL with `kill -9`; return once they are gone."""
        process, self._process = self._process, None
        if process is not None:
            kill_tree(process.pid)
            process.wait()
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            postmaster = int((self._data / "postmaster.pid").read_text().partition("\n")[0])
            if str(self._data) in psutil.Process(postmaster).cmdline():
                kill_tree(postmaster)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _config(self, zookeeper: Sequence[str]) -> dict[str, Any]:
        address, rest = f"{HOST}:{self.sql_port}", f"{HOST}:{self.rest_port}"
        dynamic = {
            "ttl": TTL_SECONDS,
            "loop_wait": LOOP_SECONDS,
            "retry_timeout": LOOP_SECONDS,
            "synchronous_mode": True,
            "postgresql": {"use_pg_rewind": True, "parameters": {"shared_buffers": "16MB", "max_connections": 30}},
        }
        return {
            "scope": SCOPE,
            "name": self.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "zookeeper": {"hosts": list(zookeeper)},
            "bootstrap": {"dcs": dynamic, "initdb": [{"encoding": "UTF8"}, "data-checksums"]},
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(self._data),
                "bin_dir": str(_programs()[-1]),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": {"username": USER}, "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": [
                    "local all all trust",
                    f"host all all {HOST}/32 trust",
                    f"host replication all {HOST}/32 trust",
                ],
            },
        }


def _as_user() -> Sequence[str]:
    """Command that runs another one as the user of PostgreSQL."""
    return () if os.geteuid() else ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--")


@contextmanager
def open_members(zookeeper: Sequence[str], logs: Path, size: int = 3) -> Iterator[list[Member]]:
    """Members that the block may start; kill them, and delete their data, with the block.

    Args:
        zookeeper: addresses of its servers.
        logs: folder for what each Patroni logs.
        size: number of members.
    """
    port = free_ports(2 * size)
    # Not below pytest's folder, which other users must not enter.
    with tempfile.TemporaryDirectory(prefix="virtuallog-patroni-", ignore_cleanup_errors=True) as root:
        members = [
            Member(f"m{number}", Path(root, f"m{number}"), logs / f"m{number}.log", port + number, port + size + number)
            for number in range(size)
        ]
        for member in members:
            member.folder.mkdir()
            member.write_config(zookeeper)
        if not os.geteuid():
            for path in (Path(root), *(member.folder for member in members)):
                shutil.chown(path, USER, USER)
        try:
            yield members
        finally:
            for member in members:
                member.kill()

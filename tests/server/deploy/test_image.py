"""The image that share/compose/build-image makes without a registry: three nodes of it, in containers of a user without rights.

The build downloads some fifty megabytes of Debian and PyPI, for minutes on a slow line; `VIRTUALLOG_IMAGE` names one that was built before.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.debian import require
from tests.free_ports import free_ports
from tests.server.process.console.http_client import get
from tests.source_tree import ROOT
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.runtime.clock import SystemClock

pytestmark = [pytest.mark.processes, pytest.mark.long]

USER: Final = "vl-image-test"
"""Owner of the containers if the tests run as root; made, and removed again."""
IMAGE: Final = "localhost/virtuallog:latest"
SUBORDINATE: Final = "700000-765535"
"""User ids of this machine that stand for those in the containers."""
NODES: Final = (1, 2, 3)
SECONDS_MAX: Final = 600
"""Patience for a command, or for nodes: on a busy machine podman needs minutes to unpack the image."""
PROGRAMS: Final = {
    "mmdebstrap": "mmdebstrap", "umoci": "umoci", "podman": "podman", "runc": "runc", "newuidmap": "uidmap",
}  # fmt: skip
"""Program -> the package of Debian that has it."""


@attrs.frozen
class Podman:
    """Containers of one user, in a folder of their own. runc, as crun refuses a machine that has both versions of control groups."""

    folder: Path
    prefix: Sequence[str]
    """Command that runs another one as this user."""

    def run(self, *arguments: str, check: bool = True, stdin: str = "") -> str:
        """Output of a podman command."""
        options = (
            "--runtime", "runc", "--storage-driver", "overlay", "--root", f"{self.folder}/storage", "--runroot", f"{self.folder}/run",
        )  # fmt: skip
        done = subprocess.run(
            [*self.prefix, "podman", *options, *arguments],
            cwd=self.folder, input=stdin, capture_output=True, text=True, check=False, timeout=SECONDS_MAX,
            env={**os.environ, "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)},
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def inspect(self, name: str) -> Any:
        return json.loads(self.run("inspect", name))[0]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image in a file, built by the documented command."""
    require("what builds and runs images", lambda: all(map(shutil.which, PROGRAMS)), *PROGRAMS.values())
    if built := os.environ.get("VIRTUALLOG_IMAGE"):
        return Path(built)
    path = tmp_path_factory.mktemp("image") / "virtuallog.tar"
    environment = {**os.environ, "PYTHON": sys.executable}
    command = [ROOT / "share" / "compose" / "build-image", path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return path


@pytest.fixture
def podman(tmp_path_factory: pytest.TempPathFactory, image: Path) -> Iterator[Podman]:
    """Podman without root, with the image loaded."""
    if os.geteuid() != 0:
        yield from loaded(tmp_path_factory.mktemp("podman"), (), image)
        return
    folder = Path("/var/tmp") / USER
    subprocess.run(["userdel", "--force", USER], capture_output=True, check=False)  # of a run that was killed
    shutil.rmtree(folder, ignore_errors=True)
    run("useradd", "--system", "--create-home", "--home-dir", str(folder), USER)
    try:
        run("usermod", "--add-subuids", SUBORDINATE, "--add-subgids", SUBORDINATE, USER)
        user = pwd.getpwnam(USER)
        yield from loaded(
            folder, ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"), image
        )
    finally:
        run("userdel", USER)
        shutil.rmtree(folder)


def loaded(folder: Path, prefix: Sequence[str], image: Path) -> Iterator[Podman]:
    found = Podman(folder, prefix)
    with image.open("rb") as file:
        subprocess.run([*prefix, "sh", "-c", f"cat > {folder}/image.tar"], stdin=file, check=True)
    try:
        found.run("load", "--input", f"{folder}/image.tar")
        yield found
    finally:
        found.run("rm", "--all", "--force", "--time", "5", check=False)
        found.run("system", "reset", "--force", check=False)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def start(podman: Podman, node: int, first: int) -> None:
    """Start a node as compose.yaml does, on loopback ports of this machine: without rights, on a root that is read-only."""
    peers = ",".join(f"{each}@127.0.0.1:{first + each}" for each in NODES)
    settings = {
        "ID": str(node), "DATA": "/data", "LISTEN": f"127.0.0.1:{first + node}", "PROBES": f"127.0.0.1:{first + 3 + node}", "PEERS": peers,
    }  # fmt: skip
    podman.run(
        "run", "--detach", "--name", f"node-{node}", "--network", "host", "--read-only", "--tmpfs", "/tmp",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--volume", f"data-{node}:/data",
        *(f"--env=VIRTUALLOG_SERVE_{name}={value}" for name, value in settings.items()),
        IMAGE, "serve",
    )  # fmt: skip


async def wait_ready(podman: Podman, first: int) -> None:
    """Ask the port of probes of each node, as a kubelet does."""
    clock = SystemClock()
    with clock.timeout(SECONDS_MAX):
        for node in NODES:
            while not await is_ready(first + 3 + node):
                await clock.sleep(0.2)
        return
    raise AssertionError("\n".join(podman.run("logs", f"node-{node}", check=False) for node in NODES))


async def is_ready(port: int) -> bool:
    try:
        return (await get(port, "/readyz")).status == 200
    except OSError:
        return False


def command(podman: Podman, first: int, *arguments: str) -> str:
    """A command of the image, as a client."""
    cluster = ClusterFile(nodes=tuple(NodeAddress(id=node, address=f"127.0.0.1:{first + node}") for node in NODES))
    file = podman.folder / "cluster.toml"
    file.write_text(cluster.spell())
    file.chmod(0o644)
    return podman.run(
        "run", "--rm", "--network", "host", "--read-only", "--volume", f"{file}:/cluster.toml:ro", "--env=VIRTUALLOG_CLUSTER=/cluster.toml",
        IMAGE, *arguments,
    )  # fmt: skip


def test_the_image_has_a_user_without_rights(podman: Podman) -> None:
    """The program is PID 1 and gets SIGTERM; it is user 10001, which can write to its data and nowhere else."""
    config = podman.inspect(IMAGE)["Config"]

    assert (config["User"], config["Entrypoint"], config["StopSignal"]) == ("10001:10001", ["virtuallog"], "SIGTERM")
    assert config["Volumes"] == {"/data": {}}
    shell = ("run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE, "-c")
    assert podman.run(*shell, "id -u; touch /data/file && echo written").split() == ["10001", "written"]
    assert podman.run(*shell, "touch /usr/local/bin/file || echo refused").strip() == "refused"


async def test_three_containers_are_a_cluster(podman: Podman) -> None:
    """Started, ready, appended to, ended by SIGTERM in order, and started again on the same volumes: the entry is there."""
    first = free_ports(8)
    for _ in range(2):
        for node in NODES:
            start(podman, node, first)
        await wait_ready(podman, first)
        command(podman, first, "append", "hello")
        podman.run("stop", "--time", "30", *(f"node-{node}" for node in NODES))
        states = {node: podman.inspect(f"node-{node}")["State"] for node in NODES}
        assert {node: state["ExitCode"] for node, state in states.items()} == dict.fromkeys(NODES, 0)
        podman.run("rm", *(f"node-{node}" for node in NODES))
    for node in NODES:
        start(podman, node, first)
    await wait_ready(podman, first)
    assert command(podman, first, "read", "--raw").count("hello") == 2

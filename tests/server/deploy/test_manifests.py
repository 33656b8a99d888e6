"""Manifests for Kubernetes and compose: valid, by the rules that keep a cluster alive, and understood by the program that they start."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml  # type: ignore[import-untyped]

from tests.free_ports import free_ports
from tests.server.process.console.http_client import get
from tests.source_tree import ROOT
from virtuallog.client.cluster_file import NodeAddress
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.config.environment import FILE_VARIABLE, overrides
from virtuallog_server.config.node_config import NodeConfig, node_config_of, read_node_config

MANIFESTS = sorted((ROOT / "share" / "kubernetes").glob("*.yaml"))
COMPOSE = ROOT / "share" / "compose" / "compose.yaml"
NODES = (1, 2, 3)
OLDEST = "1.31"
"""First version of Kubernetes in which numbers of pods may begin at 1 without a feature gate."""
SECONDS_MAX = 120
"""Patience for three nodes that form a cluster on a busy machine."""


def manifest(name: str) -> Any:
    return yaml.safe_load((ROOT / "share" / "kubernetes" / f"{name}.yaml").read_text())


def pod() -> Any:
    return manifest("statefulset")["spec"]["template"]["spec"]


def container() -> Any:
    (found,) = pod()["containers"]
    return found


def pod_environment(number: int) -> dict[str, str]:
    """The environment of one pod, as a kubelet expands it."""
    known = {"metadata.labels['apps.kubernetes.io/pod-index']": str(number)}
    found: dict[str, str] = {}
    for variable in container()["env"]:
        text = variable.get("value") or known[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], text)
    return found


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.stem))
@pytest.mark.parametrize("newest", [False, True], ids=["oldest", "newest"])
def test_kubernetes_knows_all_that_the_manifests_say(path: Path, newest: bool) -> None:
    """By its own schemas, strictly: a key that is misspelled would be dropped without a word."""
    schemas = pytest.importorskip("kubernetes_validate")
    version = schemas.latest_version() if newest else OLDEST

    schemas.validate(yaml.safe_load(path.read_text()), version, strict=True)


@pytest.mark.parametrize("number", NODES)
def test_a_pod_is_the_node_of_its_number(tmp_path: Path, number: int) -> None:
    """`serve` reads the shared file and the pod's environment: number, certificate, and peers by the names that the service gives."""
    stateful_set, service, file = manifest("statefulset"), manifest("service"), tmp_path / "node.toml"
    file.write_text(manifest("config")["data"]["node.toml"])
    environment = pod_environment(number)
    config = read_node_config(file, overrides(environment))

    assert container()["args"] == ["serve"]
    assert environment[FILE_VARIABLE] == "/config/node.toml"
    name, domain, start = (
        stateful_set["metadata"]["name"],
        service["metadata"]["name"],
        stateful_set["spec"]["ordinals"]["start"],
    )
    pods = range(start, start + stateful_set["spec"]["replicas"])
    assert config.peers == tuple(NodeAddress(id=each, address=f"{name}-{each}.{domain}:7001") for each in pods)
    assert stateful_set["spec"]["serviceName"] == domain
    assert config.tls is not None
    assert (config.id, config.tls.certificate) == (number, Path(f"/tls/node-{number}.pem"))
    assert {each["name"]: each["containerPort"] for each in container()["ports"]} == ports_of(config)
    assert {each["name"]: each["port"] for each in service["spec"]["ports"]} == ports_of(config)
    mounted = {Path(each["mountPath"]) for each in container()["volumeMounts"]}
    assert {config.data, config.tls.key.parent, config.tls.authority.parent, Path("/config")} <= mounted


def ports_of(config: NodeConfig) -> dict[str, int]:
    return {"rpc": int(config.listen.rpartition(":")[2]), "probes": int(config.probes.rpartition(":")[2])}


def test_a_first_start_does_not_wait_for_itself() -> None:
    """All pods at once, and names before pods are ready: a node is ready with a majority only."""
    assert manifest("statefulset")["spec"]["podManagementPolicy"] == "Parallel"
    assert manifest("service")["spec"]["publishNotReadyAddresses"] is True
    assert manifest("service")["spec"]["clusterIP"] == "None"


def test_probes_ask_the_plain_port_about_this_node_alone() -> None:
    """Liveness is the loop, readiness the part in the cluster; no probe starts a program, and no pod is killed within a minute."""
    probes = {name: container()[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}

    assert {name: each["httpGet"]["path"] for name, each in probes.items()} == {
        "startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz",
    }  # fmt: skip
    assert {each["httpGet"]["port"] for each in probes.values()} == {"probes"}
    assert probes["liveness"]["periodSeconds"] * probes["liveness"]["failureThreshold"] >= 60
    assert probes["startup"]["periodSeconds"] * probes["startup"]["failureThreshold"] >= 600


def test_one_pod_at_a_time_may_be_disrupted() -> None:
    """A share such as 51 % allows two of five. No hook removes a member: a drain of a machine would shrink the cluster."""
    budget = manifest("disruption-budget")["spec"]

    assert budget["maxUnavailable"] == 1
    assert (
        budget["selector"]["matchLabels"].items()
        <= manifest("statefulset")["spec"]["template"]["metadata"]["labels"].items()
    )
    assert "lifecycle" not in container()
    (rule,) = pod()["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"


def test_a_pod_has_no_rights() -> None:
    """The "restricted" level of Kubernetes' pod security standards, and a root file system that is read-only."""
    of_pod, of_container = pod()["securityContext"], container()["securityContext"]

    assert of_pod["runAsNonRoot"] is True
    assert of_pod["fsGroupChangePolicy"] == "OnRootMismatch"
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert (pod()["automountServiceAccountToken"], pod()["enableServiceLinks"]) == (False, False)


def test_the_image_runs_the_program_by_itself() -> None:
    """In exec form, so that it gets signals; not as root; without a health check, which would start Python for each probe."""
    lines = (ROOT / "share" / "compose" / "Containerfile").read_text().splitlines()

    assert 'ENTRYPOINT ["virtuallog"]' in lines
    assert f"USER {pod()['securityContext']['runAsUser']}:{pod()['securityContext']['runAsGroup']}" in lines
    assert not any(line.startswith("HEALTHCHECK") for line in lines)


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


@pytest.mark.parametrize("number", NODES)
def test_a_service_of_compose_is_a_node(number: int) -> None:
    """Its environment is all of its config; its host name is the one that peers call; its key is its own."""
    service = services()[f"node-{number}"]
    config = node_config_of(overrides(service["environment"]))

    assert config.peers == tuple(NodeAddress(id=each, address=f"node-{each}:7001") for each in NODES)
    assert config.tls is not None
    assert (config.id, config.tls.key.name) == (number, f"node-{number}.key")
    assert service["ports"] == [f"127.0.0.1:{9000 + number}:{ports_of(config)['probes']}"]
    assert f"data-{number}:{config.data}" in service["volumes"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["depends_on"]["certificates"]["condition"] == "service_completed_successfully"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Write-ahead logs, which pytest would keep."""
    yield tmp_path
    shutil.rmtree(tmp_path)


def here(text: str, folder: Path, number: int, first: int) -> str:
    """A value of compose with the addresses and paths of this machine: loopback instead of a network, folders instead of volumes."""
    text = re.sub(r"node-(\d):7001", lambda match: f"127.0.0.1:{first + int(match[1])}", text)
    text = text.replace("0.0.0.0:7001", f"127.0.0.1:{first + number}").replace(
        "0.0.0.0:9001", f"127.0.0.1:{first + 3 + number}"
    )
    return text.replace("/certificates", f"{folder}/certificates").replace("/data", f"{folder}/data-{number}")


@pytest.mark.processes
def test_an_interrupted_service_of_certificates_is_taken_up(folder: Path) -> None:
    """Killed while it made the first ones, it makes the rest. Once all are there it needs no key of the authority, which may be gone."""
    (line,) = services()["certificates"]["command"]
    line = here(line, folder, 0, 0).replace("virtuallog ", f"{sys.executable} -m virtuallog_server ", 1)
    certificates = folder / "certificates"
    subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    everything = {path.name for path in certificates.iterdir()}
    for path in certificates.glob("*-*"):
        if path.stem != "node-1":
            path.unlink()

    subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    assert {path.name for path in certificates.iterdir()} == everything
    (certificates / "authority.key").unlink()
    subprocess.run(["sh", "-c", line], check=True, capture_output=True)
    assert {path.name for path in certificates.iterdir()} == everything - {"authority.key"}


@pytest.mark.processes
@pytest.mark.slow
async def test_the_services_of_compose_form_a_cluster(folder: Path) -> None:
    """Their commands and variables as they stand, in processes instead of containers: certificates are made, and all nodes get ready."""
    first = free_ports(7)
    program = [sys.executable, "-m", "virtuallog_server"]
    (line,) = services()["certificates"]["command"]
    made = here(line.rpartition("|| virtuallog ")[2], folder, 0, first).split()
    (folder / "certificates").mkdir()
    await trio.run_process([*program, *made], capture_stdout=True)
    processes = []
    try:
        for number in NODES:
            service = services()[f"node-{number}"]
            settings = (f"{name}={here(text, folder, number, first)}" for name, text in service["environment"].items())
            with (folder / f"log-{number}").open("wb") as log:
                command = ["env", *settings, *program, *service["command"]]
                processes.append(await trio.lowlevel.open_process(command, stderr=log, stdin=subprocess.DEVNULL))
        clock = SystemClock()
        with clock.timeout(SECONDS_MAX):
            for number in NODES:
                while not await is_ready(first + 3 + number):
                    await clock.sleep(0.1)
            return
        raise AssertionError("".join((folder / f"log-{number}").read_text()[-2000:] for number in NODES))
    finally:
        for process in processes:
            process.terminate()
        with trio.CancelScope(shield=True):
            for process in processes:
                await process.wait()


async def is_ready(port: int) -> bool:
    try:
        return (await get(port, "/readyz")).status == 200
    except OSError:
        return False


def test_a_build_sends_no_environment_and_no_history() -> None:
    """`docker build` copies the folder of the source, .venv and all, unless .dockerignore names it: what git ignores, and git itself."""
    ignored = {
        line.removeprefix("**/")
        for line in (ROOT / ".dockerignore").read_text().split("\n")
        if line[:1] not in {"", "#"}
    }

    assert ignored == {".git", *(line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split())}

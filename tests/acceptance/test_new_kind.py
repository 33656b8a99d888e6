"""A kind of loglet that is one package and one entry point, used everywhere that kinds are used.

The distribution is that of `examples/`, built and installed by pip.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT
from virtuallog.connect import connect
from virtuallog.plugins import loglet_kinds, presentations
from virtuallog_lab.bench.targets import target_names
from virtuallog_server.local_cluster.supervisor import open_local_cluster
from virtuallog_server.report import kinds
from virtuallog_simulation.scenarios import selection

KIND = "single-copy"
EXAMPLES = ROOT / "examples"

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built and installed by pip as a user would."""
    folder = tmp_path_factory.mktemp("example")
    source, installed = shutil.copytree(EXAMPLES, folder / "source"), folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", installed, source], check=True)
    return installed


@pytest.fixture(autouse=True)
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example beside the product. This process takes its code from the checkout, as other tests do: Cap'n Proto refuses to load
    one schema from two places. Its children take what pip has installed."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(EXAMPLES)
    beside = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *beside]))
    monkeypatch.setattr(kinds, "tone_of", kinds.tone_of.__wrapped__)


def run(*arguments: str, cluster: Path | None = None) -> str:
    """Output of a command, which must succeed."""
    environment = {**os.environ, **({"VIRTUALLOG_CLUSTER": str(cluster)} if cluster else {})}
    command = [sys.executable, "-P", "-m", "virtuallog_server", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_listed_and_has_a_color() -> None:
    """Kinds of the command line, trials of the benchmark, the simulator's kinds, the color of pages."""
    assert KIND in loglet_kinds()
    assert KIND in target_names()
    assert KIND in selection.loglet_kinds()
    assert kinds.tone_of(KIND) == "red"


def test_clients_in_other_languages_get_its_schema(tmp_path: Path) -> None:
    """`virtuallog schema` writes it beside ours."""
    run("schema", "--out", str(tmp_path))

    schema = EXAMPLES / "single_copy_loglet/single_copy_loglet.capnp"
    assert (tmp_path / schema.name).read_bytes() == schema.read_bytes()
    assert "| `single_copy_loglet.capnp` |" in (tmp_path / "README.md").read_text()


def test_a_kind_that_cannot_be_loaded_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, trials and the simulator go on without the kind of a package that is broken."""
    metadata = tmp_path / "other" / "broken-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[virtuallog.loglets]\nbroken = no_such_module:Provider\n")
    monkeypatch.syspath_prepend(metadata.parent)

    assert "broken" in loglet_kinds()
    assert KIND in presentations().keys() - {"broken"}
    assert kinds.tone_of("broken") == kinds.OTHER
    assert KIND in target_names()


async def test_a_log_is_swapped_to_it_and_explained(tmp_path: Path) -> None:
    """`reconfigure --to`, an append, `chain` and `explain`, on three real nodes."""
    async with open_local_cluster(tmp_path / "cluster", base_port=0) as cluster:
        await cluster.wait_ready()
        cluster.write_file()
        run("reconfigure", "--to", KIND, cluster=cluster.file_path)
        async with connect(cluster.file) as log:
            place = await log.append(b"on one copy")
            assert (await log.check_tail()).tail == place + 1
        told = json.loads(run("chain", "--json", cluster=cluster.file_path))
        assert told["segments"][-1]["kind"] == KIND
        assert KIND in run("explain", cluster=cluster.file_path)


@pytest.mark.long
def test_it_is_a_row_of_the_benchmark() -> None:
    """`bench reconfigure --kind single-copy`: swapped for a native loglet, and back, under load."""
    told = run("bench", "reconfigure", "--kind", KIND, "--kind", "native", "--swaps", "1", "--window", "0.1")

    assert KIND in told


def test_the_simulator_and_the_kit_judge_it() -> None:
    """Chains of the simulator are swapped to it. The kit knows it by its name."""
    told = run("simulate", "--loglets", f"{KIND},native", "--faults", "delay,duplication", "--seed", "4")
    assert "every promise was kept" in told
    assert "did: extend to the same kind" in told

    assert "kept" in run("conformance", KIND, "--only", "random_histories_are_those_of_a_log", "--seed", "1")

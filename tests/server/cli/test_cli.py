"""The command line without a cluster: usage, help, exit codes."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import trio
from click.testing import CliRunner, Result
from trio.testing import MockClock

from virtuallog.contract.errors import InvalidSettingError, UnavailableError, UnknownKindError
from virtuallog.contract.placement import Cluster
from virtuallog.contract.provider import SupportsSettings
from virtuallog.contract.types import NodeId
from virtuallog.plugins import loglet_providers
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_server.cli import main
from virtuallog_server.cli.common.failures import translate
from virtuallog_server.cli.common.options import parse_settings
from virtuallog_server.cli.log.append_job import RatePacer


def run(*arguments: str, cluster: Path | None = None) -> Result:
    environment = {"VIRTUALLOG_CLUSTER": str(cluster) if cluster else None}
    return CliRunner().invoke(main, arguments, env=environment)


@pytest.fixture
def dead_cluster(tmp_path: Path) -> Path:
    """A cluster file with a port that no process listens on (discard, a privileged one)."""
    path = tmp_path / "cluster.toml"
    path.write_text('[[node]]\nid = 1\naddress = "127.0.0.1:9"\n')
    return path


JOBS = "virtuallog_server.cli.cluster"
EVERY_COMMAND = ["up", "serve", "append", "read", "tail", "trim", "seal", "chain", "status", "reconfigure", "truncate",
                 "explain", "upgrade"]  # fmt: skip


@pytest.mark.parametrize("name", [*EVERY_COMMAND, "bench append", "bench trace", "demo"])
def test_every_command_teaches_by_example(name: str) -> None:
    """--help of each command shows how it is called."""
    result = run(*name.split(), "--help")

    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"virtuallog {name}" in result.output


def test_reconfigure_tells_what_can_be_set() -> None:
    """`--list`: every kind that takes appends, with each of its settings; an archive takes none, and is not offered."""
    result = run("reconfigure", "--list")
    output = result.output

    assert result.exit_code == 0

    for kind, provider in loglet_providers().items():
        assert (f"--to {kind}" in output) == isinstance(provider, SupportsSettings) == (kind != "archive")
        for name in provider.settings if isinstance(provider, SupportsSettings) else ():
            assert f"  {name}=" in output


@pytest.mark.parametrize("kind", ["native", "paxos", "raft", "striped", "zookeeper"])
def test_a_kind_takes_the_settings_that_it_tells(kind: str) -> None:
    """It objects to the value. An unknown name is refused, with the names that the kind knows."""
    provider = loglet_providers()[kind]
    assert isinstance(provider, SupportsSettings)
    cluster = Cluster(members=(), planner=NodeId(1))

    objections = []
    for name in provider.settings:
        try:
            provider.plan(cluster, {name: "-"}, None)
        except (InvalidSettingError, UnknownKindError) as error:
            objections.append(str(error))
    assert [text for text in objections if "unknown; a" in text] == []
    with pytest.raises(InvalidSettingError, match=f"unknown.*{', '.join(provider.settings)}"):
        provider.plan(cluster, {"colour": "red"}, None)


def test_the_exit_codes_are_documented() -> None:
    """The first thing that --help explains after how to start."""
    output = run("--help").output

    for line in ("0  done", "1  failed", "2  wrong usage", "3  unavailable"):
        assert line in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["append"], "name the cluster: --cluster FILE, or VIRTUALLOG_CLUSTER"),
        (["up"], "Missing option '--data'"),
        (["up", "--data", "x", "--nodes", "0"], "0 is not in the range"),
        (["serve"], "needs --config FILE, or --id and --data"),
        (["serve", "--config", "a", "--id", "1"], "leave out --id"),
        (["serve", "--id", "1", "--data", "d", "--peers", "7001"], "--peers: '7001' is not id@host:port"),
        (["serve", "--id", "1", "--data", "d", "--peers", "2@127.0.0.1:7002"], "lacks this node, 1"),
        (["bench", "append", "--outstanding", "1,x"], "must be whole numbers above 0"),
        (["bench", "append", "--rounds", "5"], "--rounds needs --floor"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str], words: str) -> None:
    """Nothing is started; the message says what is wrong."""
    result = run(*arguments)

    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.startswith("virtuallog: ")
    assert result.stderr.endswith("--help`)\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["append"], "give either a PAYLOAD or --lines"),
        (["append", "x", "--lines", "-"], "give either a PAYLOAD or --lines"),
        (["append", "--lines", "/no/such/file"], "No such file"),
        (["read", "--raw", "--json"], "exclude each other"),
        (["read", "--from", "-1"], "is not in the range"),
        (["read", "--from", "9", "--to", "3"], "--to 3 is below --from 9"),
        (["trim", "soon"], "is not a valid integer range"),
        (["trim", "--", "-5"], "-5 is not in the range"),
        (["trim", str(1 << 64)], "is not in the range"),
        (["reconfigure"], "Missing option '--to'"),
        (["reconfigure", "--to", "native", "--set", "sequencer"], "must be name=value"),
        (["explain", "appends"], "'appends' is none of chain, append, tail, seal, trim, database, and no segment"),
        (["explain", "3.x"], "'3.x' is none of chain"),
        (["upgrade"], "Missing option '--check'"),
    ],
)
def test_wrong_usage_with_a_cluster_ends_with_2(dead_cluster: Path, arguments: list[str], words: str) -> None:
    """The same, before any node is asked."""
    result = run(*arguments, cluster=dead_cluster)

    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.startswith("virtuallog: ")
    assert result.stderr.endswith("--help`)\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["append", "x"], ["read"], ["tail"], ["seal"], ["chain"], ["trim", "3"], ["explain"], ["upgrade", "--check"]],
)
def test_nobody_there_ends_with_3_and_one_line(dead_cluster: Path, arguments: list[str]) -> None:
    """Unavailable has another exit code than failed, and no traceback."""
    result = run(*arguments, cluster=dead_cluster)

    assert result.exit_code == 3
    assert result.stderr.startswith("virtuallog: no node of the cluster can be used (node 1:")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_status_of_a_dead_cluster_is_still_an_answer(dead_cluster: Path) -> None:
    """Silence is what `status` is asked about."""
    result = run("status", "--json", cluster=dead_cluster)

    assert result.exit_code == 0
    assert '"state": "silent"' in result.stdout


def test_a_bad_cluster_file_ends_with_1(tmp_path: Path) -> None:
    """File, line and key, as everywhere."""
    path = tmp_path / "cluster.toml"
    path.write_text("[[node]]\nid = 1\n")
    result = run("tail", cluster=path)

    assert result.exit_code == 1
    assert result.stderr == f"virtuallog: {path}:1: node.address: is missing\n"


def test_only_loopback_is_served(tmp_path: Path) -> None:
    """An open port without encryption is refused with the reason."""
    result = run("serve", "--id", "1", "--data", str(tmp_path), "--peers", "1@0.0.0.0:7001")

    assert result.exit_code == 1
    assert "virtuallog: listen 0.0.0.0:7001: without TLS only loopback addresses are served" in result.stderr


def test_called_without_a_command_it_shows_the_help() -> None:
    """The one wrong usage with more than a line: a new user gets the whole help."""
    result = run()

    assert result.exit_code == 2
    assert "Exit codes:" in result.stderr


def test_every_command_is_listed_with_a_word_about_it() -> None:
    """Those of other packages, too, although none is imported before it is called."""
    output = run("--help").output

    for name in (*EVERY_COMMAND, "bench", "demo", "simulate"):
        assert re.search(rf"^  {name} +[A-Z]", output, re.MULTILINE), name


def test_a_command_waits_for_no_module_of_another(dead_cluster: Path) -> None:
    """`tail` is called by scripts: pictures, tables and progress bars take longer to import than it takes to answer."""
    probe = (
        "import sys, contextlib\n"
        "from virtuallog_server.cli import main\n"
        f"with contextlib.suppress(Exception): main(['tail', '--cluster', {str(dead_cluster)!r}], standalone_mode=False)\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())

    assert {"virtuallog_server.cli.log.read_job", "virtuallog.connect"} <= loaded
    for module in (
        "matplotlib",
        "rich.progress",
        "virtuallog.rpc.server",
        "virtuallog_loglets.paxos",
        "virtuallog_server.local_cluster.supervisor",
        "virtuallog_lab.demo",
        "virtuallog_lab.bench",
        "virtuallog_lab.trace",
    ):
        assert module not in loaded


@pytest.mark.parametrize(
    ("module", "unused"),
    [
        ("virtuallog.connect", {"rich", "virtuallog.rpc.server", "virtuallog_loglets"}),
        (
            "virtuallog.node_services",
            {"rich", "virtuallog.client.virtual_log", "virtuallog.plugins", "virtuallog.rpc.server"},
        ),
        (
            f"{JOBS}.status_job",
            {"rich", "virtuallog.client.virtual_log", "virtuallog.plugins", "virtuallog_server.node.node"},
        ),
        (f"{JOBS}.up_job", {"rich", "virtuallog.client.virtual_log", "virtuallog_loglets", "virtuallog_server.node"}),
        (f"{JOBS}.serve_job", {"rich", "virtuallog_server.local_cluster", "virtuallog_server.diagnosis"}),
    ],
)
def test_a_start_waits_for_nothing_that_it_does_not_use(module: str, unused: set[str]) -> None:
    """A command, a cluster and a node each import their own work: no tables, no server in a client, no client in a supervisor."""
    probe = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)

    assert not unused.intersection(done.stdout.split())


def test_a_node_starts_without_what_few_nodes_need() -> None:
    """A restart is waited for by clients, and each of these takes up to half a second of a slow machine: they are imported on use."""
    probe = (
        "import sys\n"
        "import virtuallog_server.cli.cluster.serve_job, virtuallog_server.process.process, virtuallog_server.database.role, virtuallog_server.process.zookeeper_ports\n"
        "from virtuallog.plugins import loglet_providers, metastore_provider\n"
        "loglet_providers(), metastore_provider()\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())

    assert {
        "virtuallog_loglets.archive.core.content_digest",
        "virtuallog_loglets.zookeeper.provider",
        "virtuallog_server.zookeeper.service",
    } <= loaded
    for module in ("numpy", "pyarrow", "fsspec", "cryptography", "hypercorn", "starlette", "kazoo", "matplotlib"):
        assert module not in loaded


def test_errors_of_tasks_are_found_in_their_groups() -> None:
    """One known error explains the command's end; a bug among them is shown as a bug; Ctrl-C is neither."""
    known = ExceptionGroup("", [ExceptionGroup("", [UnavailableError("no node")])])
    failure = translate(known)
    assert isinstance(failure, click.ClickException)
    assert (failure.message, failure.exit_code) == ("no node", 3)

    bug = ExceptionGroup("", [UnavailableError("no node"), ZeroDivisionError()])
    assert translate(bug) is bug

    stopped = translate(BaseExceptionGroup("", [KeyboardInterrupt(), InvalidSettingError("a", "b")]))
    assert isinstance(stopped, click.exceptions.Exit)
    assert stopped.exit_code == 130


def test_output_without_room_is_no_bug() -> None:
    """One line says so. Any other error of the operating system is one that we did not expect."""
    full = translate(OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(full, click.ClickException)
    assert (full.message, full.exit_code) == ("cannot write the output: No space left on device", 1)

    bug = FileNotFoundError(errno.ENOENT, "No such file")
    assert translate(bug) is bug


def test_settings_are_parsed_strictly() -> None:
    """A value may hold equals signs; a name stands once."""
    assert parse_settings(("a=1", "b=x=y", "c=")) == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(click.UsageError, match="given twice"):
        parse_settings(("a=1", "a=2"))


async def test_a_pace_is_kept_and_a_late_start_is_made_up_for(autojump_clock: MockClock) -> None:
    """`--rate`: so many entries a second on the whole; groups that come late do not slow down the rest."""
    pace = RatePacer(100, SimulatedClock(Process(NodeId(1))))
    began = trio.current_time()  # noqa: TID251 -- on a mock clock
    for _ in range(3):
        await pace.wait(50)
    assert trio.current_time() - began == pytest.approx(1.0)  # noqa: TID251


@pytest.mark.parametrize("grace", ["inf", "nan", "1e30", "-1"])
def test_a_grace_that_never_ends_is_wrong_usage(grace: str, dead_cluster: Path) -> None:
    """It is refused before anything is written."""
    result = run("archive", "all", "--to", "memory://archives", "--grace", grace, cluster=dead_cluster)

    assert result.exit_code == 2
    assert "ten years" in result.stderr

"""`--help` imports the definitions of commands and click, and nothing that a command works with."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

import virtuallog
from pyspark_virtuallog import command_line, session
from pyspark_virtuallog.commands import archive as spark_archive
from virtuallog.contract import batch, types
from virtuallog_loglets.archive import config as archive_config
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_loglets.paxos.standalone import log as paxos_log
from virtuallog_loglets.raft.standalone import client as raft_client
from virtuallog_server.backup import backup_run
from virtuallog_server.cli import main
from virtuallog_server.cli.common import limits
from virtuallog_server.cli.paxos_log.trace import Content
from virtuallog_server.config import node_config
from virtuallog_server.history import past_database
from virtuallog_simulation import cli as simulation_cli
from virtuallog_simulation.conformance import cli as conformance_cli
from virtuallog_simulation.scenarios import selection
from virtuallog_simulation.scenarios.conformance import options as conformance_options

HEAVY = frozenset(
    {
        "attrs", "capnp", "cattrs", "crc32c", "cryptography", "hypercorn", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow",
        "pyspark", "rich", "rocksdict", "starlette", "trio",
        "virtuallog.client", "virtuallog.connect", "virtuallog.contract", "virtuallog.rpc",
        "virtuallog_database", "virtuallog_lab.bench", "virtuallog_lab.demo", "virtuallog_lab.floor", "virtuallog_lab.trace", "virtuallog_loglets", "virtuallog_metastore",
        "virtuallog_server.local_cluster", "virtuallog_server.node", "virtuallog_simulation.scenarios", "virtuallog_simulation.world",
    }
)  # fmt: skip


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    """The paths of all commands below a group, and of the group."""
    context, found = click.Context(group), [path]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.processes
@pytest.mark.slow
def test_help_imports_no_library_of_the_work() -> None:
    """Neither that of a command nor the list of all of them waits for trio, Cap'n Proto, RocksDB or Spark."""
    asked = commands(main)
    probe = (
        "import sys\n"
        "from virtuallog_server.cli import main\n"
        f"heavy = {sorted(HEAVY)!r}\n"
        f"for path in {asked!r}:\n"
        "    try:\n"
        "        main([*path, '--help'], prog_name='virtuallog')\n"
        "    except SystemExit as ended:\n"
        "        assert ended.code == 0, path\n"
        "    loaded = [name for name in heavy if name in sys.modules]\n"
        "    assert not loaded, (path, loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert {("up",), ("bench", "append"), ("spark", "audit"), ("node", "drain"), ("simulate",)} <= {*asked}


def test_numbers_in_options_are_those_of_the_modules_they_stand_for() -> None:
    """Definitions of commands repeat some constants, as they must not import where these are defined."""
    assert limits.POSITION_MAX == types.POSITION_MAX
    assert limits.ENTRY_BYTES_MAX == batch.ENTRY_BYTES_MAX
    assert limits.GRACE_SECONDS == archive_config.GRACE_SECONDS
    assert limits.BACKUP_HOLD_SECONDS == backup_run.HOLD_SECONDS
    assert limits.HISTORY_LIMIT_MAX == past_database.LIMIT_MAX
    assert limits.HISTORY_VALUE_BYTES == past_database.VALUE_BYTES
    assert limits.PAXOS_OUTSTANDING_MAX == paxos_log.OUTSTANDING_MAX
    assert limits.RAFT_OUTSTANDING_MAX == raft_client.SESSIONS_IDLE_MAX
    assert {*limits.PAXOS_CONTENTS} == {content.value for content in Content}
    assert limits.ROLES == node_config.ROLES
    assert simulation_cli.NONE == selection.NONE
    assert conformance_cli.NODES == conformance_options.NODES
    assert command_line.LOCAL == session.LOCAL
    assert DataFileSizes().file_bytes == spark_archive.FILE_BYTES


@pytest.mark.processes
def test_names_of_the_package_are_imported_on_first_use() -> None:
    """`import virtuallog` loads no library; a name loads what it needs, also after the submodule of the same name."""
    probe = (
        "import sys, virtuallog\n"
        "assert not {'trio', 'capnp', 'attrs'} & sys.modules.keys()\n"
        "import virtuallog.connect\n"
        "from virtuallog import connect, scan\n"
        "assert callable(connect) and callable(virtuallog.connect) and callable(scan)\n"
        "assert callable(virtuallog.connect)\n"
    )
    subprocess.run([sys.executable, "-c", probe], check=True)


def test_every_public_name_is_there() -> None:
    """`__all__`, `dir` and the table of lazy names agree; any other name is an AttributeError."""
    for name in virtuallog.__all__:
        assert getattr(virtuallog, name) is not None
    assert {*virtuallog.__all__} <= {*dir(virtuallog)}
    assert {*virtuallog._HOMES} == {*virtuallog.__all__}
    with pytest.raises(AttributeError, match="has no attribute 'kv'"):
        _ = virtuallog.kv  # type: ignore[attr-defined]

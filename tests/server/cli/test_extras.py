"""Commands in a base install: they work, or name the extra that they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import pyproject, requirement_name
from virtuallog_server.cli.common.extras import EXTRAS

MAIN = f"import sys; sys.modules.update(dict.fromkeys({[*EXTRAS]!r})); from virtuallog_server.cli import main; "


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a process that has no module of any extra."""
    command = (sys.executable, "-P", "-c", MAIN + code, *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_extras_are_those_of_the_package() -> None:
    """The extra that a command names brings the missing module."""
    extras = pyproject()["project"]["optional-dependencies"]
    for module, extra in EXTRAS.items():
        assert module in map(requirement_name, extras[extra])
    assert {requirement_name(line) for lines in extras.values() for line in lines} == EXTRAS.keys()


@pytest.mark.processes
@pytest.mark.slow
def test_commands_can_be_listed_without_extras() -> None:
    """The list of commands shows no command that cannot be loaded."""
    done = run(
        "import click; context = click.Context(main);"
        " print(*(f'{name}: {main.get_command(context, name).get_short_help_str(200)}' for name in main.list_commands(context)), sep='\\n')"
    )

    assert done.returncode == 0, done.stderr
    assert "simulate: " in done.stdout
    assert [line for line in done.stdout.splitlines() if "not installed" in line or "cannot be loaded" in line] == []


@pytest.mark.processes
@pytest.mark.slow
def test_the_simulator_runs_without_extras() -> None:
    """A cluster without archives needs none of them."""
    done = run("main()", "simulate", "--seed", "1", "--operations", "5", "--seconds", "5")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["archive", "mixed", "all"])
def test_a_scenario_that_needs_an_extra_names_it(scenario: str) -> None:
    """A scenario of archives names its extra in one line, before any seed runs."""
    done = run("main()", "simulate", "--seed", "1", "--scenario", scenario)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "virtuallog: pyarrow is not installed: pip install 'virtuallog[archive]'\n"


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["demo", "--picture", "p.png"],
        ["bench", "reconfigure", "--picture", "p.png"],
        ["bench", "trace", "--picture", "p.png"],
    ],
    ids=["demo", "reconfigure", "trace"],
)
def test_a_picture_names_its_extra(command: list[str]) -> None:
    """`--picture` without matplotlib ends in one line, before anything is started."""
    done = run("main()", *command)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "virtuallog: matplotlib is not installed: pip install 'virtuallog[lab]'\n"


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("option", ["--console", "--admin"])
def test_a_console_names_its_extra(option: str, tmp_path: Path) -> None:
    """A node with an HTTP address in its config ends in one line, before its data directory is made."""
    config, data = tmp_path / "node.toml", tmp_path / "data"
    section = 'console = "127.0.0.1:9"' if option == "--console" else '[zookeeper]\nadmin_listen = "127.0.0.1:9"'
    config.write_text(f'id = 1\ndata = "{data}"\n{section}\n')
    done = run("main()", "serve", "--config", str(config))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "virtuallog: hypercorn is not installed: pip install 'virtuallog[console]'\n"
    assert not data.exists()

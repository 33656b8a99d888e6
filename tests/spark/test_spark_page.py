"""docs/howto/spark.md says what there is."""

from __future__ import annotations

import re

import click
import pytest

from pyspark_virtuallog.cli import spark
from pyspark_virtuallog.read import options
from pyspark_virtuallog.read.schema import SCHEMA
from pyspark_virtuallog.write import options as write_options
from tests.source_tree import ROOT

PAGE = (ROOT / "docs/howto/spark.md").read_text()


def first_cells(heading: str) -> str:
    """Names in the first column of a section's tables."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return " ".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("archive", "Archive: closed segments as files"),
        ("audit", "Audit: is the log as it should be?"),
        ("compact", "Compact: the state of a database as files"),
        ("restore", "Restore"),
    ],
)
def test_every_command_teaches_by_example_and_is_documented(name: str, heading: str) -> None:
    """Its help shows how it is called; its section names each of its options."""
    command = spark.get_command(click.Context(spark), name)
    assert command is not None
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    options = {
        option for each in command.params for option in (*each.opts, *each.secondary_opts) if option.startswith("--")
    }

    assert f"virtuallog spark {name} " in (command.help or "").partition("Examples:")[2]
    assert options - {"--cluster", "--json"} - set(re.findall(r"--[\w-]+", section)) == set()


def test_what_commands_say_is_what_is_tested() -> None:
    """Each line of the table of their failures, with its exit code, is one that tests of bad input wait for."""
    table = PAGE.split("### When a command fails\n")[1].split("\n## ")[0]
    told = {(int(code), words) for code, words in re.findall(r"^\| .* \| (\d) \| `(.*)` \|$", table, re.MULTILINE)}
    source = "".join((ROOT / f"tests/spark/{name}.py").read_text() for name in ("test_bad_input", "test_command_exit"))

    assert len(told) > 10
    assert [words for _, words in told if f'"{words}"' not in source] == []


@pytest.mark.parametrize(
    ("heading", "names"),
    [("Options of a read", options.NAMES), ("Writing", write_options.NAMES), ("The table", SCHEMA.names)],
    ids=["read", "write", "columns"],
)
def test_every_option_and_column_is_documented(heading: str, names: tuple[str, ...]) -> None:
    """The page lists every option and column of ours, and no others. `path` is the argument of `load(FILE)`."""
    assert set(re.findall(r"`(\w+)`", first_cells(heading))) - {"checkpointLocation"} == set(names) - {"path"}

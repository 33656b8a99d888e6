"""Run of kazoo's own test suite against three of our nodes: `python -m tests.interop.kazoo_suite`, which `make kazoo` calls.

`kazoo_suite.py` (in the folder of the peers' scripts) makes an environment with a pinned kazoo, runs the unmodified tests, and starts
each node with the command that it is given: `node.py`. Tests that pass with ZooKeeper 3.8 must pass here, but for `exceptions.py`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import click

from tests.interop.exceptions import EXCEPTIONS

ROOT: Final = Path(__file__).parents[2]
NODE: Final = Path(__file__).with_name("node.py")
NODE_OPTIONS: Final = "--id {id} --folder {dir} --peers {peers} --client {client} --secure {secure} --admin {admin} --pem {pem} --jaas {jaas}"
START_SECONDS: Final = 60
"""Timeout for all nodes of a cluster: ours listen for clients once they serve them, and machines stall."""


@click.command()
@click.option(
    "--peers-dir", type=click.Path(path_type=Path), default=ROOT.parent / "shared" / "peers", show_default=True
)
@click.option(
    "--environment", type=click.Path(path_type=Path), default=ROOT / ".venv" / "kazoo-suite", show_default=True
)
@click.option("--tests", default="kazoo.tests", show_default=True, help="A module, e.g. kazoo.tests.test_client.")
@click.option("--port", default=20000, show_default=True, help="Of the first node; each takes ten.")
@click.option("--results", type=click.Path(path_type=Path), default=ROOT / "measured" / "kazoo.xml", show_default=True)
@click.option("--logs", type=click.Path(path_type=Path), help="Where to keep what the nodes log.")
@click.argument("pytest_arguments", nargs=-1)
def main(
    peers_dir: Path,
    environment: Path,
    tests: str,
    port: int,
    results: Path,
    logs: Path | None,
    pytest_arguments: tuple[str, ...],
) -> None:
    """Run the suite. Exit code 1 if a test fails that is no known exception, or if one of those passes."""
    script = peers_dir / "kazoo_suite.py"
    if not script.exists():
        raise click.ClickException(f"{script} is not there: name its folder with --peers-dir")
    results.parent.mkdir(parents=True, exist_ok=True)
    results.unlink(missing_ok=True)  # of an earlier run
    command = [
        *(sys.executable, str(script), "--env", str(environment), "--tests", tests, "--port", str(port)),
        *("--start", f"{shlex.join([sys.executable, str(NODE)])} {NODE_OPTIONS}"),
        *("--start-timeout", str(START_SECONDS), "--junit", str(results.resolve())),
        *(("--keep-logs", str(logs.resolve())) if logs else ()),
        # Its environment may be below this checkout, and must not use our settings for pytest.
        *("--", "-c", os.devnull, f"--rootdir={environment}", *pytest_arguments),
    ]
    subprocess.run(command, check=False)
    if not results.exists():
        raise click.ClickException("the suite has not run")
    surprises = list(judge(read_results(results)))
    click.echo("".join(f"{surprise}\n" for surprise in surprises) or "as expected")
    sys.exit(bool(surprises))


def read_results(path: Path) -> Mapping[str, str]:
    """Result of each test: passed, failed or skipped."""
    found = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        module = str(case.get("classname")).rpartition("kazoo.tests.")[2]
        kinds = {element.tag for element in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        found[f"{module}::{case.get('name')}"] = outcome
    return found


def judge(results: Mapping[str, str]) -> Iterable[str]:
    """A sentence for each test with an unexpected result."""
    if "passed" not in results.values():
        yield "no test has passed"
    for name, outcome in sorted(results.items()):
        if outcome == "failed" and name not in EXCEPTIONS:
            yield f"FAILED {name}"
        if outcome == "passed" and name in EXCEPTIONS:
            yield f"PASSED, though it is said not to: {name}"


if __name__ == "__main__":
    main()

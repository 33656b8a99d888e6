"""Two versions of the program, installed side by side: up, down and up for good, while a checked workload appends."""

from __future__ import annotations

import subprocess

import pytest

from tests.source_tree import ROOT
from virtuallog.contract.versions import SPOKEN
from virtuallog_lab.experiments.failover import former_program, rolling_upgrade
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.trial import TrialLoad

pytestmark = [pytest.mark.processes, pytest.mark.long]


def require_history() -> None:
    """Skip the test if the former program cannot be had, as in an archive of the source."""
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{former_program.COMMIT}^{{commit}}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("the history of this checkout does not have the former program")


def test_the_former_program_is_one_version_older() -> None:
    """A change of the newest version of the protocol has to name another commit."""
    assert SPOKEN.last - 1 == former_program.PROTOCOL


async def test_nodes_go_to_this_program_and_back_under_load() -> None:
    """Nothing is lost, doubled or reordered. Nothing was in the way of any restart; in the end the former program is."""
    require_history()
    evidence = await rolling_upgrade.run(1, TrialLoad(writers=16), True)
    told = rolling_upgrade.report(Machine.look(), evidence)

    assert told.problems == ()
    assert evidence.verdict.entries >= evidence.workload.acknowledged > 0
    stages = [(restart.stage, int(restart.node)) for restart in evidence.result.restarts]
    assert stages == [(stage, node) for stage in ("up", "down", "up", "last") for node in (1, 2, 3)]
    assert evidence.result.level == SPOKEN.last
    assert any(f"protocol {former_program.PROTOCOL} cannot be used" in why for why in evidence.result.refusals)

"""A small run of the program that lets a log grow: real processes, and every figure is one."""

from __future__ import annotations

import pytest

from virtuallog.contract.register import REGISTER_BYTES_MAX
from virtuallog_lab.experiments.growth import growth
from virtuallog_lab.experiments.growth.report import report
from virtuallog_lab.harness.machine import Machine


@pytest.mark.long
@pytest.mark.processes
async def test_a_log_grows_and_its_chain_stays_small() -> None:
    """Two stages, a restart in each; then a chain that is extended and trimmed. Read back in full."""
    stages, trimmed, looks = await growth.run([500, 1_000], 100, 64, 60, 0.3)
    told = report(Machine.look(), stages, trimmed, looks)

    assert not told.problems
    assert [stage.entries for stage in stages] == [500, 1_000]
    for stage in stages:
        assert stage.share_of_floor > 0
        assert stage.restart_seconds > 0
        assert min(stage.memory.sequencer, stage.memory.servers, stage.restarted_memory) > 10 << 20
    assert trimmed is not None
    assert trimmed.after_bytes <= trimmed.before_bytes
    assert looks[-1].reconfigurations == 60
    assert looks[-1].segments < 10 < max(look.segments for look in looks)
    assert 0 < looks[-1].register_bytes < looks[-1].register_bytes_max < REGISTER_BYTES_MAX
    assert [table.title for table in told.tables][:2] == ["A log that grows", "Targets"]

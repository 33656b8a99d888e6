"""The small version of the second siege of `make hostile`: every attack on ZooKeeper's ports for a moment."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.attacked_zookeeper import besieged
from tests.hostile.zookeeper_attacker import KINDS, Attacker
from virtuallog_server.zookeeper.wire.opcodes import OpCode


@pytest.mark.long
@pytest.mark.processes
async def test_servers_under_attack_live_and_serve_honest_clients(tmp_path: Path) -> None:
    """They are the same processes afterwards, and have answered every ping and done every requested write. `make hostile` judges times."""
    with besieged(tmp_path) as siege:
        await siege.prepare()
        phases = [await siege.attack(kind, 0.5, rest_seconds=0.0, here=True) for kind in KINDS]
        problems = await siege.check()

    assert problems == []
    assert sum(phase.pings for phase in phases) > 0
    assert sum(phase.written for phase in phases) > 0


def test_every_opcode_is_drawn() -> None:
    """Also opcodes that are added later."""
    attacker = Attacker(random.Random(1))
    for _ in range(1000):
        attacker.draw()

    assert {opcode.name for opcode in OpCode} <= set(attacker.count)

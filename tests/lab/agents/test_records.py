"""Records of agents as they are stored."""

from __future__ import annotations

import json

import pytest

from tests.lab.agents.memory_registrar import MACHINE_3, MemoryRegistrar, agent
from virtuallog.contract.errors import CorruptionError
from virtuallog_database.registrar.core.tables import Registry, Slot, encode_key, encode_slot
from virtuallog_database.registrar.errors import MissingCapabilitiesError
from virtuallog_lab.agents.agent_operations import Admit
from virtuallog_lab.agents.capabilities import check_capabilities
from virtuallog_lab.agents.drain_operations import Drain
from virtuallog_lab.agents.records import (
    ADMITTED,
    MACHINES,
    MASTER,
    ONLY,
    TABLES,
    UNREACHABLE,
    AdmittedAgent,
    DrainInfo,
    MachineMode,
    MasterInfo,
    ScheduledMachine,
    Unavailability,
    UnreachableAgent,
    sample_agent,
)  # fmt: skip


def test_ten_thousand_agents_need_two_megabytes() -> None:
    """The agents of the original's benchmarks have ids of 36 to 40 characters, and records as small as theirs."""
    assert {len(sample_agent(number).id) for number in (0, 10, 100, 1000, 49_999)} == {36, 37, 38, 39, 40}
    record = ADMITTED.encode(AdmittedAgent(sample_agent(9_999)))

    assert len(record) * 10_000 < 2_000_000
    assert json.loads(record) == {
        "info": {
            "id": "201310101658-2280333834-5050-48574-9999", "hostname": "localhost", "cpus": 1.0, "mem": 512.0, "disk": 2048.0,
            "attributes": {"foo": "bar", "baz": "quux"},
        },
    }  # fmt: skip


def test_fields_of_a_later_program_are_kept() -> None:
    """An older master changes the record of an agent, at every depth, without losing what a later one has added."""
    later = {
        "info": {"id": "1", "hostname": "h", "region": "north"},
        "drain_info": {"state": "drained", "by": {"user": "root"}},
        "trust": [1, 2],
    }
    stored = {encode_key("admitted", "1"): bytes(7) + b"\1" + json.dumps(later).encode()}
    registrar = MemoryRegistrar(Registry.decode_untrusted(stored, TABLES), stored)

    assert registrar.apply(Drain("1", 3.0))
    (value,) = (value for key, value in registrar.stored.items() if key == encode_key("admitted", "1"))
    assert json.loads(value[8:]) == {
        "info": {"id": "1", "hostname": "h", "region": "north"},
        "drain_info": {"by": {"user": "root"}, "grace_seconds": 3.0},
        "deactivated": True,
        "trust": [1, 2],
    }


def test_each_table_reads_what_it_wrote() -> None:
    """Defaults are left out, and come back."""
    order = DrainInfo(grace_seconds=1.5)
    for record in (AdmittedAgent(agent("1"), order, True), AdmittedAgent(agent("1"))):
        assert ADMITTED.decode(ADMITTED.encode(record)) == record
    for lost in (UnreachableAgent("1", 1.25, order, True), UnreachableAgent("1", 0.0)):
        assert UNREACHABLE.decode(UNREACHABLE.encode(lost)) == lost
    for machine in (ScheduledMachine(MACHINE_3, mode, Unavailability(1.0)) for mode in MachineMode):
        assert MACHINES.decode(MACHINES.encode(machine)) == machine
    assert MASTER.encode(MasterInfo("m")) == b'{"id":"m"}'
    assert len({table.name for table in TABLES}) == len(TABLES) == 10


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b'{"info":{}}', b'{"info":[]}', b'{"info":{"id":"1"}}', b'{"info":{"id":"1","hostname":"h","cpus":"many"}}',
     b'{"info":{"id":"1","hostname":"h"},"drain_info":{"state":"sunk"}}', b"[]", b"null", b"\xff", b"[" * 99_999],
)  # fmt: skip
def test_a_record_that_is_none_is_corruption(value: bytes) -> None:
    """And nothing else."""
    with pytest.raises(CorruptionError):
        Registry.decode_untrusted({encode_key("admitted", "1"): bytes(8) + value}, TABLES)


def test_a_master_that_lacks_a_capability_does_not_start() -> None:
    """Its downgrade stops before it gives tasks to an agent that is drained."""
    registrar = MemoryRegistrar()
    assert registrar.apply_all([Admit(agent("1")), Drain("1")]) == [True, True]

    check_capabilities(registrar.registry)
    with pytest.raises(MissingCapabilitiesError, match="needs a program with AGENT_DRAINING"):
        check_capabilities(registrar.registry, ["QUOTA_V2"])


def test_master_has_one_record() -> None:
    """It is kept under one key, for the registrar's own operation."""
    stored = {encode_key("master", ONLY): encode_slot(MASTER, Slot(1, MasterInfo("m", "h", "1.2.3.4", 1)))}
    registry = Registry.decode_untrusted(stored, TABLES)

    assert registry.get(MASTER, ONLY) == MasterInfo("m", "h", "1.2.3.4", 1)

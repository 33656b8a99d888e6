"""Random operations against a model that keeps the lists as Mesos does: in memory, and by registrars over each storage."""

from __future__ import annotations

import math
import random
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import pytest

from tests.database.state.clients import STORAGES
from tests.lab.agents.agent_model import Tables, chosen, rows
from tests.lab.agents.memory_registrar import MemoryRegistrar, agent
from tests.metastore.world import simulated
from virtuallog_database.registrar.core.edit import Edit, Operation
from virtuallog_database.registrar.errors import DeposedError
from virtuallog_database.registrar.registrar import Registrar, RegistrarSettings, open_registrar
from virtuallog_database.state.location import records_of
from virtuallog_lab.agents.agent_operations import Admit
from virtuallog_lab.agents.records import TABLES

BATCHES = 40
TERMS, OPERATIONS = 4, 25
PATIENT = RegistrarSettings(fetch_seconds=math.inf, store_seconds=math.inf)
"""Simulated time would pass a limit while RocksDB's threads work."""


@attrs.frozen
class Flawed:
    """Performs another operation, and then fails by a bug."""

    operation: Operation

    def perform(self, edit: Edit) -> None:
        self.operation.perform(edit)
        raise ZeroDivisionError


@pytest.mark.parametrize("seed", range(20))
def test_registry_is_what_the_model_says(seed: int) -> None:
    """Answers and all records, with their order, after each batch and each recovery; bugs in between leave no trace."""
    chance = random.Random(seed)
    registrar, model = MemoryRegistrar(), Tables()
    refused = 0
    for _ in range(BATCHES):
        operations, expected = list[Operation](), list[bool]()
        for _ in range(chance.choice([1, 1, 2, 5])):
            operation, effect = chosen(chance, model)
            operations.append(operation)
            expected.append(effect())
        flawed = Flawed(chosen(chance, model)[0])
        with pytest.raises(Exception):  # noqa: B017  a refusal, or the bug
            Edit(registrar.registry).run(flawed)

        assert registrar.apply_all(operations) == expected, operations
        assert rows(registrar.registry) == model
        refused += expected.count(False)
    assert refused > 3


@pytest.mark.parametrize("storage", list(STORAGES))
@simulated
async def test_registrars_over_each_storage_do_what_the_model_says(storage: str, tmp_path: Path) -> None:
    """Masters at two clients in turn: each recovers what the others have left, in its order, and deposes the one before."""
    chance, model = random.Random(1), Tables()
    async with STORAGES[storage](tmp_path) as clients, AsyncExitStack() as stack:
        registrars: list[Registrar] = []
        for term in range(TERMS):
            records = records_of((clients.first, clients.second)[term % 2])
            registrar = await stack.enter_async_context(
                open_registrar(
                    records, "registry", tables=TABLES, owner=f"master {term}", settings=PATIENT, clock=clients.clock
                )
            )
            registrars.append(registrar)
            assert rows(await registrar.recover()) == model
            for _ in range(OPERATIONS):
                operation, effect = chosen(chance, model)
                expected = effect()
                assert (await registrar.apply(operation)).is_permitted == expected, operation
                assert rows(registrar.registry) == model
        for former in registrars[:-1]:
            with pytest.raises(DeposedError):
                await former.apply(Admit(agent("late")))

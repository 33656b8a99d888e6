"""Before the switch of the bounds, commands are applied as the former version applied them, to the byte: a cluster may have replicas of both
versions, and a new replica replays what others have applied."""

from __future__ import annotations

import random
from hashlib import blake2b

import pytest

from virtuallog_database.testing.heavy_commands import HeavyCommands
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.results import Result, Stat

FORMER = {
    1: "c1515e6aec7deac3",
    2: "33001c7e501c49fc",
    3: "883aa496c480c33d",
    4: "0941aaed83709ddb",
    5: "23d5df0e4d313e2d",
    6: "ca44a21f40e892f1",
    7: "5f9501ef36a88edd",
    8: "5e83d6c563070402",
    9: "59744b4ee5b6db48",
    10: "21a9d3e566d5af62",
    11: "33b932ee545c8738",
    12: "8fbbfd6176d6551e",
    13: "f513cb27438a2fcf",
    14: "bf9fabdf53602265",
    15: "026bd281ebeb5131",
    16: "3701f7f95644b715",
    17: "3a0b48d450f03155",
    18: "054d4015d24b68eb",
    19: "7939fb488f18adcd",
    20: "f681a75c879f0599",
    21: "15e87fcd284a9485",
    22: "103a1ab5e1ec4b2d",
    23: "f690d3bb18800a2c",
    24: "7bf3721388329e22",
    25: "e4da27ced3261884",
}
"""Results of version 69fede5 for the commands of these seeds."""


def told(result: Result) -> tuple[object, ...]:
    """Fields of a result in the former version."""
    value = (
        [told(part) for part in result.value]
        if isinstance(result.value, tuple) and not isinstance(result.value, Stat)
        else result.value
    )
    return result.zxid, result.error, value, result.changes, result.touched, result.ended


def digest_of(seed: int) -> str:
    """Digest of all results and of the whole store, after some commands in several transactions."""
    chance, store, digest = random.Random(seed), MemoryDisk().open(), blake2b(digest_size=8)
    transaction = StoreTransaction(store)
    for command in HeavyCommands(chance, size=3000).commands(250):
        result = apply(transaction, command_codec.parse_untrusted(command_codec.encode(command)))
        digest.update(repr(told(result)).encode())
        if chance.random() < 0.3:
            transaction.commit()
    transaction.commit()
    for key, value in store.scan((b"", b"\xff"), 10_000):
        digest.update(b"%d %d " % (len(key), len(value)) + key + value)
    return digest.hexdigest()


@pytest.mark.parametrize(("seed", "expected"), FORMER.items())
def test_commands_before_the_switch_are_applied_as_by_the_former_version(seed: int, expected: str) -> None:
    """Results and records are the same."""
    assert digest_of(seed) == expected

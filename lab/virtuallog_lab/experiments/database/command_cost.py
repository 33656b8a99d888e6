#!/usr/bin/env python3
"""Cost of the tree without a log: commands that are applied on RocksDB, and reads, in one process.

    python -m virtuallog_lab.experiments.database.command_cost --rounds 5

Each round sets the data of all znodes, in a new order and some commands in a transaction, and then reads them. Microseconds of this
process' CPU time for each operation, medians over the rounds.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Final

import click
import trio

from virtuallog_database.ports import LocalStore
from virtuallog_database.rocks.directory import open_store_directory
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.apply import apply
from virtuallog_database.tree.commands import Command, Create, CreateSession, Identity, Operation, Origin, SetData
from virtuallog_database.tree.tree import Tree
from virtuallog_lab.harness.report import tell

_ORIGIN: Final = Origin(0x0100_0000_0000_0001, 1, (Identity("ip", "127.0.0.1"),))
_TIME_MS: Final = 1_700_000_000_000


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--znodes", default=10_000, show_default=True)
@click.option("--size", default=100, show_default=True, help="Bytes of data.")
@click.option("--group", default=128, show_default=True, help="Commands in a transaction.")
def main(rounds: int, znodes: int, size: int, group: int) -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory(prefix="virtuallog-tree-") as folder:
        trio.run(_measure, Path(folder), rounds, znodes, size, group)


async def _measure(folder: Path, rounds: int, znodes: int, size: int, group: int) -> None:
    directory = await open_store_directory(folder)
    store = await directory.open()
    paths = [f"/bench/{number:08}" for number in range(znodes)]
    first: list[Operation] = [CreateSession(_ORIGIN.session, b"", 4000), Create("/bench", None)]
    _apply(store, [_encoded(each, Origin()) for each in first], group)
    creates = [_encoded(Create(path, bytes(size))) for path in paths]
    tell(f"create: {_timed(lambda: _apply(store, creates, group)) / znodes:.2f}")
    figures = [_round(store, paths, size, group) for _ in range(rounds)]
    for name in figures[0]:
        tell(f"{name}: {median(each[name] for each in figures):.2f}")
    await directory.close()


def _round(store: LocalStore, paths: list[str], size: int, group: int) -> dict[str, float]:
    random.shuffle(paths)
    tree, encoded = Tree(store), list[bytes]()
    encode = _timed(lambda: encoded.extend(_encoded(SetData(path, bytes(size))) for path in paths))
    return {
        "encode": encode / len(paths),
        "set_data": _timed(lambda: _apply(store, encoded, group)) / len(paths),
        "get_data": _timed(lambda: [tree.get_data(path, _ORIGIN.identities) for path in paths]) / len(paths),
    }


def _encoded(operation: Operation, origin: Origin = _ORIGIN) -> bytes:
    return command_codec.encode(Command(operation, origin, _TIME_MS))


def _apply(store: LocalStore, payloads: Sequence[bytes], group: int) -> None:
    for start in range(0, len(payloads), group):
        transaction = StoreTransaction(store)
        for payload in payloads[start : start + group]:
            apply(transaction, command_codec.parse_untrusted(payload))
        transaction.commit()


def _timed(work: Callable[[], object]) -> float:
    """Microseconds."""
    start = process_time()
    work()
    return (process_time() - start) * 1e6


if __name__ == "__main__":
    main()

"""A log used by itself in processes that are killed: what was acknowledged is there, once and in order."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import attrs
import pytest
import trio

from tests.free_ports import free_ports
from virtuallog.contract.errors import DiskFullError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.standalone.client import LogClient
from virtuallog_loglets.raft.standalone.facade import initialize, open_client

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 90.0
"""Timeout of the whole story, on a machine that is busy with other things."""
LOOK_SECONDS = 0.05
RAFT_LOG = (sys.executable, "-P", "-m", "virtuallog_server", "raft-log")
"""The command, as a process of its own."""


@attrs.define
class Store:
    """One directory, and the process on it."""

    path: Path
    address: str
    store: NodeId
    output: IO[bytes]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [*RAFT_LOG, "replica", "--path", str(self.path)]
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output)

    async def said(self, word: str) -> None:
        """Wait until the process has printed a word."""
        while word not in self.printed:
            await trio.sleep(LOOK_SECONDS)  # noqa: TID251 -- real processes

    @property
    def printed(self) -> str:
        return Path(self.output.name).read_text()

    def kill(self) -> None:
        """Kill the process, as a machine that loses its kernel does."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(stores: list[Store]) -> Iterator[None]:
    """Run the replicas of these stores; their output is printed if the test fails."""
    try:
        for store in stores:
            store.start()
        yield
    finally:
        for store in stores:
            if store.process is not None and store.process.poll() is None:
                store.kill()
            store.output.close()
            sys.stderr.write(f"--- {store.address}\n{store.printed}")


async def format_stores(folder: Path, count: int) -> list[Store]:
    """Directories of new stores, the first of which founds a log."""
    port, stores = free_ports(count), list[Store]()
    for number in range(count):
        path, address = folder / f"{number}", f"127.0.0.1:{port + number}"
        identity = await initialize(path, address=address, founds=number == 0)
        output = (folder / f"{number}.out").open("wb")
        stores.append(Store(path, address, identity.store, output))
    return stores


async def refusal(*arguments: object) -> tuple[int, str]:
    """Exit code and complaint of a command that fails: one line on stderr, and no output."""
    command = [*RAFT_LOG, *map(str, arguments)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    complaint = done.stderr.decode()
    assert (done.stdout, complaint.count("\n")) == (b"", 1), f"{command}: {done.stdout!r} {complaint}"
    assert complaint.startswith("virtuallog: ")
    return done.returncode, complaint


async def leader_of(client: LogClient) -> NodeId:
    """The store that leads, once there is one."""
    while True:
        leaders = [row.store for row in await client.status() if row.role == "LEADER"]
        if leaders:
            return leaders[0]
        await trio.sleep(LOOK_SECONDS)  # noqa: TID251 -- real processes


async def more(acknowledged: list[tuple[int, bytes]], count: int = 20) -> None:
    """Wait until so many more entries are acknowledged."""
    enough = len(acknowledged) + count
    while len(acknowledged) < enough:
        await trio.sleep(LOOK_SECONDS)  # noqa: TID251 -- real processes


async def vote_of(client: LogClient, store: Store) -> None:
    """Wait until a store is a voter that follows or leads."""
    while True:
        rows = {row.store: row for row in await client.status()}
        if store.store in rows and rows[store.store].role in ("FOLLOWER", "LEADER"):
            return
        await trio.sleep(LOOK_SECONDS)  # noqa: TID251 -- real processes


async def test_acknowledged_entries_outlive_the_leader_and_a_disk(tmp_path: Path) -> None:
    """Under appends the leader dies, comes back, and another one loses its directory and is replaced by a new store."""
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        stores = await format_stores(tmp_path, 4)
        *first_three, spare = stores
        by_id = {store.store: store for store in stores}
        with running(stores):
            for store in stores:
                await store.said(store.address)  # it can be reached now
            await first_three[0].said("runs")
            async with open_client([first_three[0].address]) as client:
                for store in first_three[1:]:
                    await client.add(store.store, store.address)
                    await vote_of(client, store)
                acknowledged, stop = list[tuple[int, bytes]](), False

                async def append() -> None:
                    number = 0
                    while not stop:
                        data = b"%d" % number
                        with suppress(UnavailableError):  # unknown: it may be there
                            acknowledged.append((await client.append(data), data))
                        number += 1

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(append)
                    await more(acknowledged)
                    dead = by_id[await leader_of(client)]
                    dead.kill()
                    await more(acknowledged)
                    dead.start()
                    await vote_of(client, dead)
                    lost = by_id[next(row.store for row in await client.status() if row.role == "FOLLOWER")]
                    lost.kill()
                    shutil.rmtree(lost.path)
                    await client.add(spare.store, spare.address)
                    await client.remove(lost.store)
                    await vote_of(client, spare)
                    await more(acknowledged)
                    stop = True

                found = {
                    entry.offset: entry.data for entry in await client.read(0, store=spare.store, linearizable=True)
                }
    assert [data for offset, data in acknowledged if found.get(offset) != data] == []
    assert [offset for offset, _ in acknowledged] == sorted({offset for offset, _ in acknowledged})
    assert len(set(found.values())) == len(found)


# -- bad input: one line on stderr, an exit code, and nothing lost ------------------------------------------------------


async def test_a_wrong_or_unknown_store_is_refused_in_one_line(tmp_path: Path) -> None:
    """Another store or log is there, or none, or the store is no member. The log goes on where it was."""
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        one, two = await format_stores(tmp_path, 2)
        with running([one, two]):
            await one.said("runs")
            await two.said(two.address)
            peers = "--peers", one.address
            async with open_client([one.address]) as client:
                assert await client.append(b"kept") == 0
                await client.add(two.store, two.address)
                await vote_of(client, two)
                for arguments, code, complaint in (
                    (("append", "x", "--peers", f"7@{one.address}"), 1, "wrong data directory"),
                    (("append", "x", "--name", "other", *peers), 1, "wrong cluster"),
                    (("read", "--store", 77, *peers), 3, "the address of store 77 is not known"),
                    (("add", "77@127.0.0.1:1", *peers), 1, "store 77 does not answer at 127.0.0.1:1"),
                    (("add", f"{two.store}@{two.address}", *peers), 1, f"store {two.store} is a member already"),
                    (("remove", 77, *peers), 1, "store 77 is no member"),
                    (("transfer", 77, *peers), 1, "store 77 is no voter of this log"),
                    (("remove", one.store, *peers), 1, f"{one.store} leads: transfer the leadership first"),
                    (("remove", two.store, "--seen", 0, *peers), 1, "they have been changed by the record at"),
                ):
                    found, said = await refusal(*arguments)
                    assert (found, complaint in said) == (code, True), f"{arguments}: {found} {said}"

                assert await client.append(b"next") == 1
                assert [entry.data for entry in await client.read(0, linearizable=True)] == [b"kept", b"next"]


async def test_an_offset_beyond_the_tail_or_below_the_trim_is_refused_in_one_line(tmp_path: Path) -> None:
    """A trim drops what lies below its offset, an earlier one does nothing, and one beyond the tail is refused."""
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        (one,) = await format_stores(tmp_path, 1)
        with running([one]):
            await one.said("runs")
            peers = "--peers", one.address
            async with open_client([one.address]) as client:
                for number in range(3):
                    await client.append(b"%d" % number)
                code, said = await refusal("trim", 4, *peers)
                assert (code, "position 4 is past the tail 3" in said) == (1, True), said
                for offset in (2, 1):
                    done = await trio.run_process([*RAFT_LOG, "trim", str(offset), *peers], capture_stdout=True)
                    assert done.stdout == b"entries below %d are dropped\n" % offset
                code, said = await refusal("read", "--from", 1, *peers)
                assert (code, "trimmed: the log starts at 2" in said) == (1, True), said
                assert [entry.data for entry in await client.read(2, linearizable=True)] == [b"2"]


async def test_changes_that_wait_for_a_majority_are_unavailable(tmp_path: Path) -> None:
    """One of two voters is dead: neither a change nor a second one is made, and both say so. Then it comes back."""
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        one, two, three = await format_stores(tmp_path, 3)
        with running([one, two, three]):
            await one.said("runs")
            for store in (two, three):
                await store.said(store.address)
            async with open_client([one.address]) as client:
                await client.add(two.store, two.address)
                await vote_of(client, two)
                assert await client.append(b"kept") == 0
                two.kill()
                answers = list[tuple[int, str]]()

                async def change(*arguments: object) -> None:
                    answers.append(await refusal(*arguments, "--peers", one.address))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(change, "add", f"{three.store}@{three.address}")
                    nursery.start_soon(change, "remove", two.store)
                assert [code for code, _ in answers] == [3, 3]
                two.start()
                await vote_of(client, two)
                assert [entry.data for entry in await client.read(0, linearizable=True)] == [b"kept"]


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of 36 MiB: two files of a write-ahead log, and little more. Needs root; skipped elsewhere."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=36m", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


async def test_a_full_disk_is_told_in_one_line_and_appends_go_on_with_room(tmp_path: Path) -> None:
    """A real file system. What was acknowledged can be read; a trim makes room, and the process goes on without a restart."""
    with trio.fail_after(PATIENCE_SECONDS), small_disk(tmp_path / "disk") as disk:  # noqa: TID251 -- real time
        (one,) = await format_stores(disk, 1)
        with running([one]):
            await one.said("runs")
            peers = "--peers", one.address
            async with open_client([one.address]) as client:
                offsets = list[int]()

                async def fill() -> None:
                    while True:
                        offset = await client.append(bytes(1 << 20))
                        offsets.append(offset)

                with pytest.raises(DiskFullError):
                    await fill()
                (term,) = {row.term for row in await client.status()}
                for _ in range(3):
                    code, said = await refusal("append", "x" * 1000, *peers)
                    assert (code, "full" in said) == (3, True), said
                assert {row.term for row in await client.status()} == {term}
                assert [entry.offset for entry in await client.read(0, linearizable=True)] == offsets

                await client.trim(offsets[-1])
                while True:
                    with suppress(DiskFullError):
                        assert await client.append(b"again") == offsets[-1] + 1
                        break
                    await trio.sleep(LOOK_SECONDS)  # noqa: TID251 -- real processes
                assert {row.term for row in await client.status()} == {term}


async def test_directories_that_cannot_be_used_are_refused_in_one_line(tmp_path: Path) -> None:
    """In use, without a store, of a later format, with damaged records. They are left as they are."""
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        (one,) = await format_stores(tmp_path, 1)
        at = "--path", one.path
        with running([one]):
            await one.said("runs")
            async with open_client([one.address]) as client:
                for data in (b"damaged", b"last"):
                    await client.append(data)
            for command in (("replica", *at), ("read", *at), ("status", *at), ("initialize", *at, "--listen", "a:1")):
                code, said = await refusal(*command)
                assert (code, "in use by another process" in said) == (1, True)
        code, said = await refusal("initialize", *at, "--listen", "a:1")
        assert (code, f"it is store {one.store} of log 'log' already" in said) == (1, True)
        code, said = await refusal("replica", "--path", tmp_path)
        assert (code, "it holds no store of a Raft log: initialize it first" in said) == (1, True)

        identity = one.path / "identity" / "store"
        records = one.path / "raft" / "wal-0000000001"
        for file, former, latter, complaint in (
            (identity, b'"version": 1', b'"version": 9', "the store has format 9; this program knows format 1"),
            (records, b"damaged", b"damagee", "wal-0000000001"),
        ):
            whole = file.read_bytes()
            spoilt = whole.replace(former, latter)
            file.write_bytes(spoilt)
            for name in ("replica", "read", "status"):
                code, said = await refusal(name, *at)
                assert (code, complaint in said) == (1, True), said
            assert file.read_bytes() == spoilt
            file.write_bytes(whole)

        lines = (await trio.run_process([*RAFT_LOG, "read", *map(str, at)], capture_stdout=True)).stdout.splitlines()
        assert [line.split()[-1] for line in lines if b"BATCHES" in line] == [b"damaged", b"last"]

"""Crashes at any moment: all records that were called back are there, and the records there are a prefix of the appended ones.

A story is a series of boots on one simulated disk. In each boot the log is recovered, records are appended, segments
are dropped, and at some moment (in a recovery, in a write, in a roll-over, between two sectors) the power goes or the
process is killed. Disks may also fail a write or a sync before that. The checks are in `Witness`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import attrs
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loglets.wal.recorded_log import DATA, SMALL, STATE
from tests.virtuallog.runtime.test_disk_simulated import CLOCK
from virtuallog.contract.errors import StorageError, VirtualLogError
from virtuallog.contract.ports import Storage
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog_loglets.wal import Address, WalRecord, WriteAheadLog


@attrs.frozen
class Boot:
    """One life of the process."""

    sizes: list[int]
    """Payload bytes of each record, in the order of the appends."""
    per_append: int
    pause_seconds: float
    """Between two appends."""
    life_seconds: float
    power: bool
    """It ends by a power loss, else by a kill."""
    drops: bool
    """Segments are dropped as soon as a later record is durable."""


@attrs.define
class Witness:
    """Knows what was appended and what was acknowledged, over all boots."""

    appended: list[bytes] = attrs.Factory(list)
    """Records that may be in the log. One that a recovery did not find is taken out: it must not come back."""
    durable: int = 0
    """Number of records that must be there: acknowledged, or found by a recovery that returned."""
    found: int = 0
    last: int = -1
    recoveries: int = 0
    """Recoveries that have returned, and were checked."""

    def begin_replay(self) -> None:
        self.found, self.last = -1, -1

    def replay(self, address: Address, record: WalRecord) -> None:
        assert self.last < address, "addresses ascend"
        self.last = address
        if record.kind == STATE:
            assert self.found in {-1, int(record.payload)}, "a snapshot is the state at its place"
            self.found = int(record.payload)
            return
        assert self.found >= 0, "the first record of a log is a snapshot"
        assert record.payload == self.appended[self.found], "a prefix of what was appended, in order"
        self.found += 1

    def end_replay(self) -> None:
        self.found = max(self.found, 0)
        assert self.found >= self.durable, "what was acknowledged is there"
        self.durable = self.found
        self.recoveries += 1
        del self.appended[self.found :]


async def live(storage: Storage, boot: Boot, witness: Witness) -> None:
    """One boot, up to its end by `crash` or by a failing disk."""
    try:
        witness.begin_replay()
        wal = await WriteAheadLog.open(storage, SMALL, witness.replay)
        witness.end_replay()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, wal, boot, witness)
            await wal.run(lambda: snapshot(witness.durable))
    except* StorageError:
        pass  # what a dying process sees


def snapshot(known: int) -> list[WalRecord]:
    """The state, twice, in records that reach over several sectors: a snapshot can be torn apart from its header."""
    return [WalRecord(STATE, str(known).encode().ljust(700))] * 2


async def append_all(wal: WriteAheadLog, boot: Boot, witness: Witness) -> None:
    number = len(witness.appended)
    for start in range(0, len(boot.sizes), boot.per_append):
        payloads = []
        for size in boot.sizes[start : start + boot.per_append]:
            payloads.append(f"{number}:".encode().ljust(size, b"x"))
            number += 1
        witness.appended += payloads

        def done(outcome: Sequence[Address] | VirtualLogError, count: int = len(payloads)) -> None:
            if isinstance(outcome, VirtualLogError):
                return
            witness.durable += count
            if boot.drops:
                wal.drop_before(outcome[-1])

        wal.append([WalRecord(DATA, payload) for payload in payloads], done)
        await CLOCK.sleep(boot.pause_seconds)


async def tell(seed: int, boots: list[Boot], error_rate: float) -> tuple[Witness, Counter[str]]:
    """Live through the boots, then open the log twice more on a disk that has stopped failing."""
    faults = DiskFaults(write_seconds=(0.0, 0.02), change_seconds=(0.0, 0.05), sync_error=error_rate)
    disk, witness = Disk(Random(seed), faults, CLOCK), Witness()
    for boot in boots:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live, disk.mount(), boot, witness)  # mounted here: a life may end before it begins
            await CLOCK.sleep(boot.life_seconds)
            disk.crash() if boot.power else disk.kill()
            nursery.cancel_scope.cancel()  # ports die first, then tasks
    faults.sync_error = 0.0
    for _ in range(2):
        witness.begin_replay()
        await WriteAheadLog.open(disk.mount(), SMALL, witness.replay)
        witness.end_replay()
        disk.crash()
    return witness, disk.fired


BOOTS = st.builds(
    Boot,
    sizes=st.lists(st.integers(0, 2000) | st.integers(0, 60), max_size=40),
    per_append=st.integers(1, 2),
    pause_seconds=st.sampled_from((0.0, 0.001, 0.01)),
    life_seconds=st.floats(0.0, 0.5),
    power=st.booleans(),
    drops=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1 << 32), boots=st.lists(BOOTS, min_size=1, max_size=4), error_rate=st.sampled_from((0, 0.1))
)
def test_a_crash_at_any_point(seed: int, boots: list[Boot], error_rate: float) -> None:
    """The claims of `Witness`, for any history: every recovery that returns is checked, and the last two do return."""
    witness, _ = trio.run(tell, seed, boots, error_rate, clock=trio.testing.MockClock(autojump_threshold=0))

    assert witness.recoveries >= 2
    assert witness.durable == len(witness.appended), "in the end nothing is in doubt"


def random_boot(random: Random) -> Boot:
    return Boot(
        sizes=[random.choice((20, 200, 1500)) for _ in range(random.randint(0, 60))],
        per_append=random.choice((1, 1, 2)),
        pause_seconds=random.choice((0.0, 0.001, 0.01)),
        life_seconds=random.uniform(0.0, 0.6),
        power=random.random() < 0.7,
        drops=random.random() < 0.5,
    )


def test_the_stories_meet_every_fault() -> None:
    """Sixty fixed stories: each fate of an unsynced write and of a change under way is among them."""
    fired: Counter[str] = Counter()
    for seed in range(60):
        random = Random(seed)
        boots = [random_boot(random) for _ in range(4)]
        rate = random.choice((0.0, 0.05))
        _, found = trio.run(tell, seed, boots, rate, clock=trio.testing.MockClock(autojump_threshold=0))
        fired += found

    fates = ("unsynced lost", "unsynced torn", "unsynced kept", "change lost", "change kept", "sync error", "slow")
    assert [fate for fate in fates if not fired[fate]] == []

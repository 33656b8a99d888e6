"""A segment that is archived and read back has the same entries, sessions, numbers, times, headers and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loglets.archive.archive_bench import SMALL, batches, make, read_all
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog_loglets.archive.core.content_digest import ContentDigest
from virtuallog_loglets.archive.creation.data_files import DataFileSizes

SESSIONS = st.sampled_from([SessionId(bytes([number] * 16)) for number in range(4)])
PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
HEADERS = st.dictionaries(st.text(max_size=4), st.binary(max_size=5), max_size=2)


@st.composite
def segments(draw: st.DrawFn) -> list[Placed]:
    """Adjacent batches, some in part, and gaps, from offset 0."""
    found: list[Placed] = []
    at = 0
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.integers(0, 3)) == 0:
            stop = at + draw(st.integers(1, 1 << 20))
            found.append(Gap(at, stop, draw(st.sampled_from([GapKind.FILLER, GapKind.LOST]))))
        else:
            payloads = draw(PAYLOADS)
            batch = Batch.build(draw(SESSIONS), draw(st.integers(0, 1 << 40)), payloads, draw(HEADERS))
            first = draw(st.integers(0, len(payloads) - 1))
            count = draw(st.integers(1, len(payloads) - first))
            found.append(PlacedBatch(range(at, at + count), batch, draw(st.integers(0, 1 << 41)), first))
        at = found[-1].stop
    return found


def contents(items: Sequence[Placed]) -> list[object]:
    """A reader's view: each entry with the headers of its batch, gaps joined."""
    found: list[object] = []
    for item in items:
        if isinstance(item, PlacedBatch):
            found += [(record, item.batch.headers) for record in item.records()]
        elif found and isinstance(last := found[-1], Gap) and (last.stop, last.kind) == (item.start, item.kind):
            found[-1] = Gap(last.start, item.stop, item.kind)
        else:
            found.append(item)
    return found


@settings(max_examples=40, deadline=None)
@given(items=segments(), start=st.integers(0, 1 << 62), group=st.integers(1, 400), max_bytes=st.integers(1, 500))
def test_what_is_archived_comes_back(items: list[Placed], start: int, group: int, max_bytes: int) -> None:
    """For any batches, in any cuts into row groups, files and reads."""

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            made = await make(nursery, items, start, DataFileSizes(group_bytes=group, file_bytes=3 * group))
            found = await read_all(made.open(), start, start + items[-1].stop, max_bytes)
            assert contents(found) == contents([item.shift(start) for item in items])
            assert made.archived.verified.compared
            nursery.cancel_scope.cancel()

    trio.run(run)


async def test_batches_keep_their_cuts(nursery: trio.Nursery) -> None:
    """A batch that is in view as a whole comes back as the very same blob, in one piece."""
    items = batches(40)
    made = await make(nursery, items)

    assert len(made.archived.manifest.files) > 2
    assert await read_all(made.open(), 0, 120) == items


@settings(max_examples=40, deadline=None)
@given(items=segments(), cuts=st.sets(st.integers(1, 1 << 20), max_size=6))
def test_the_checksum_does_not_depend_on_the_cuts(items: list[Placed], cuts: set[int]) -> None:
    """Two copies that hold the same have the same checksum, wherever their pieces end."""
    stop = items[-1].stop
    edges = [0, *sorted(cut for cut in cuts if cut < stop), stop]
    whole, pieces = ContentDigest(), ContentDigest()
    whole.feed(items)
    for low, high in pairwise(edges):
        pieces.feed(part for item in items if (part := item.clip(low, high)) is not None)

    assert whole.checksum() == pieces.checksum()


def test_the_checksum_tells_every_difference() -> None:
    """Another payload, border between payloads, number, session, time, header, position or kind of gap."""
    one, two = SessionId(b"1" * 16), SessionId(b"2" * 16)
    base = PlacedBatch(range(3, 5), Batch.build(one, 7, [b"ab", b"c"]), 10)
    others: list[Placed] = [
        PlacedBatch(range(3, 5), Batch.build(one, 7, [b"ab", b"d"]), 10),
        PlacedBatch(range(3, 5), Batch.build(one, 7, [b"a", b"bc"]), 10),
        PlacedBatch(range(3, 5), Batch.build(one, 8, [b"ab", b"c"]), 10),
        PlacedBatch(range(3, 5), Batch.build(two, 7, [b"ab", b"c"]), 10),
        PlacedBatch(range(3, 5), Batch.build(one, 7, [b"ab", b"c"]), 11),
        PlacedBatch(range(3, 5), Batch.build(one, 7, [b"ab", b"c"], {"h": b""}), 10),
        PlacedBatch(range(4, 6), Batch.build(one, 7, [b"ab", b"c"]), 10),
        Gap(3, 5, GapKind.LOST),
        Gap(3, 5, GapKind.FILLER),
        Gap(3, 4, GapKind.FILLER),
    ]

    def checksum(item: Placed) -> str:
        digest = ContentDigest()
        digest.feed([item])
        return digest.checksum()

    assert len({checksum(item) for item in [base, *others]}) == len(others) + 1


async def test_files_are_cut_where_they_are_large_enough(nursery: trio.Nursery) -> None:
    """Row groups and files are about as large as they should be, so that nothing large is ever in memory."""
    made = await make(nursery, batches(200))

    sizes = [file.entries * 170 for file in made.archived.manifest.files]
    assert all(size < 3 * SMALL.file_bytes for size in sizes)
    assert sum(size > SMALL.file_bytes // 2 for size in sizes) >= len(sizes) - 1

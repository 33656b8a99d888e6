"""Buffered writes: readers see one store, and the store below sees nothing before the release."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from virtuallog_database.replica.write_buffer import WriteBuffer
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs

KEYS = st.sampled_from([b"a", b"b", b"ba", b"c", b"d"])
WRITES = st.lists(
    st.one_of(st.dictionaries(KEYS, st.none() | st.sampled_from([b"", b"1", b"22"]), max_size=3), st.none()), max_size=8
)
"""One after the other; None: a release."""


@given(WRITES, KEYS, KEYS, st.integers(1, 6))
def test_what_is_held_back_is_read_as_if_it_were_written(
    writes: list[dict[bytes, bytes | None] | None], start: bytes, stop: bytes, count: int
) -> None:
    """Deleted keys among them, in every span; and the store below has what was released, no more and no less."""
    disk, plain, released = MemoryDisk(), SortedPairs(), dict[bytes, bytes]()
    held = WriteBuffer(disk.open())
    for changes in writes:
        if changes is None:
            held.release()
            released = dict(plain.pairs)
        else:
            held.write(changes)
            for key, value in changes.items():
                plain.change(key, value)
        assert [held.get(key) for key in (b"a", b"ba", b"d")] == [plain.get(key) for key in (b"a", b"ba", b"d")]
        assert held.scan((start, stop), count) == plain.scan((start, stop), count)
        assert disk.content.pairs == released

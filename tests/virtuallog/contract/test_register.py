"""The register's value: the one format that must outlive every binary."""

from __future__ import annotations

import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.chain import Chain, Segment, SegmentId, extend, genesis, modify
from virtuallog.contract.errors import MalformedError, TooLargeError
from virtuallog.contract.register import REGISTER_BYTES_MAX, ClusterId, NodeEntry, Register, crowding, decode_untrusted
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId

ids = st.builds(SegmentId, st.integers(1, 1 << 40), st.integers(0, (1 << 63) - 1))
nodes = st.integers(0, (1 << 32) - 1).map(NodeId)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Chains that keep the invariants: adjacent segments, only the last one open or closed on purpose."""
    count = draw(st.integers(1, 4))
    bounds = sorted(draw(st.lists(st.integers(0, (1 << 63) - 1), min_size=count + 1, max_size=count + 1, unique=True)))
    segments = tuple(
        Segment(
            id=segment_id,
            kind=draw(words),
            config=draw(st.binary(max_size=30)),
            start=LogPosition(start),
            stop=LogPosition(stop),
            base=LogletOffset(draw(st.integers(0, 1 << 62))),
        )
        for segment_id, start, stop in zip(
            draw(st.lists(ids, min_size=count, max_size=count, unique=True)), bounds, bounds[1:], strict=False
        )
    )
    if draw(st.booleans()):
        segments = (*segments[:-1], attrs.evolve(segments[-1], stop=None))
    return Chain(max(segment.id.version for segment in segments), segments)


entries = st.builds(
    NodeEntry,
    store_id=st.binary(min_size=16, max_size=16),
    addresses=st.lists(words, max_size=3).map(tuple),
    roles=st.frozensets(words, max_size=3),
    joined=st.integers(0, 1 << 62),
)
registers = st.builds(
    Register,
    cluster=st.binary(min_size=16, max_size=16).map(ClusterId),
    chain=chains(),
    members=st.lists(nodes, max_size=5).map(tuple),
    nodes=st.dictionaries(nodes, entries, max_size=4),
)

SMALL = Register(
    cluster=ClusterId(bytes(range(16))),
    chain=extend(genesis("native", b"one", 7), 100, "paxos", b"two", 8),
    members=(NodeId(1), NodeId(2), NodeId(3)),
    nodes={
        NodeId(1): NodeEntry(store_id=bytes(16), addresses=("host:7001", "[::1]:7001"), roles=frozenset({"native"}))
    },
)


@given(registers)
def test_what_goes_in_comes_out(register: Register) -> None:
    """Chain, members and nodes survive the encoding."""
    assert decode_untrusted(register.encode()) == register


@given(registers)
def test_equal_registers_have_equal_bytes(register: Register) -> None:
    """Equal registers have equal bytes, in any order of nodes and roles."""
    turned = attrs.evolve(register, nodes=dict(reversed([*register.nodes.items()])))

    assert turned.encode() == register.encode()


def test_a_changed_chain_changes_the_version_and_nothing_else() -> None:
    """The register's version is its chain's."""
    after = SMALL.with_chain(extend(SMALL.chain, 200, "raft", b"", 9))

    assert after.version == SMALL.version + 1
    assert attrs.evolve(after, chain=SMALL.chain) == SMALL


@given(st.data())
def test_changed_bytes_are_a_register_or_malformed(data: st.DataObject) -> None:
    """Decoding any changed bytes gives a register or MalformedError."""
    blob = bytearray(SMALL.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    for damaged in (bytes(blob), bytes(blob[: data.draw(st.integers(0, len(blob)))])):
        try:
            decoded = decode_untrusted(damaged)
        except MalformedError:
            continue
        assert decoded.chain.segments


@given(st.binary(max_size=300))
def test_garbage_is_malformed(garbage: bytes) -> None:
    """Other bytes do not pass for a register."""
    with pytest.raises(MalformedError):
        decode_untrusted(garbage)


def test_a_list_that_claims_to_be_long_is_malformed() -> None:
    """A list of four million empty structs, which takes no room, is malformed: reading it would
    take most of a minute."""
    blob = bytearray(SMALL.encode())
    pointer = 48  # pointer to the segments, after the frame header, the root pointer, three data words and one pointer
    tag = pointer + 8 + 8 * (struct.unpack_from("<i", blob, pointer)[0] >> 2)
    assert struct.unpack_from("<I", blob, tag) == (len(SMALL.chain.segments) << 2,)
    struct.pack_into("<IHH", blob, tag, 4_000_000 << 2, 0, 0)

    with pytest.raises(MalformedError):
        decode_untrusted(bytes(blob))


def test_a_later_format_is_refused_by_number() -> None:
    """A register of a later format is refused by number, before it is misread."""
    blob = bytearray(SMALL.encode())
    at = blob.index(b"\x01\x00", 8)  # the first field of the root struct
    blob[at] = 4

    with pytest.raises(MalformedError, match="format 4"):
        decode_untrusted(bytes(blob))


def test_a_register_without_segments_is_malformed() -> None:
    """A register without segments is malformed: there is always one, if only an empty one."""
    with pytest.raises(MalformedError, match="without segments"):
        decode_untrusted(attrs.evolve(SMALL, chain=Chain(1, ())).encode())


def test_a_planned_change_is_refused_once_the_register_is_full() -> None:
    """A planned change of a full register is refused; roll-forward, which uses `encode`, still fits."""
    chain = SMALL.chain
    while len(SMALL.with_chain(chain).encode()) <= REGISTER_BYTES_MAX:
        assert SMALL.with_chain(chain).encode_planned(SMALL) == SMALL.with_chain(chain).encode()
        chain = extend(chain, chain.last.start + 1, "native", bytes(1000), attempt=1)
    full = SMALL.with_chain(chain)

    with pytest.raises(TooLargeError) as caught:
        full.encode_planned(SMALL)

    assert caught.value.limit == REGISTER_BYTES_MAX
    assert decode_untrusted(full.encode()) == full


def test_a_full_register_can_be_made_smaller() -> None:
    """A full register can be made smaller, also in steps that each leave it too large.

    Such as: a hot copy is given up, a node leaves, an archive takes the place of many stripes.
    """
    segments = extend(SMALL.chain, 200, "striped", bytes(2 * REGISTER_BYTES_MAX), attempt=1)
    full = SMALL.with_chain(segments)
    smaller = SMALL.with_chain(modify(segments, segments.segments[1].id, "archive", b"", attempt=2))

    assert len(smaller.encode()) > REGISTER_BYTES_MAX
    assert smaller.encode_planned(full) == smaller.encode()


def test_people_are_told_before_a_register_is_full() -> None:
    """Operators are warned before a register is full.

    64 stripes take 5 KB: a dozen segments, where a log on a single loglet has room for hundreds.
    """
    assert crowding(4 * REGISTER_BYTES_MAX // 5) == ()
    assert crowding(4 * REGISTER_BYTES_MAX // 5 + 1) == (
        "the register holds 52429 bytes: at 65536 planned changes stop. Trim the log",
    )


def test_a_register_whose_chain_is_broken_is_malformed() -> None:
    """Overlaps, holes and segments from the future are refused by decoding, not deep inside a reader."""
    first, second = SMALL.chain.segments
    for segments in (
        (attrs.evolve(first, stop=LogPosition(101)), second),
        (second, first),
        (first, attrs.evolve(second, id=SegmentId(99, 1))),
    ):
        with pytest.raises(MalformedError):
            decode_untrusted(SMALL.with_chain(Chain(SMALL.version, segments)).encode())


def test_a_place_that_was_taken_later_is_not_for_old_programs() -> None:
    """A register with `joined` has format 2, as old programs would lose it; all others have format 1."""
    taken = attrs.evolve(SMALL, nodes={node: attrs.evolve(entry, joined=4) for node, entry in SMALL.nodes.items()})

    assert taken.nodes
    assert [register.encode()[16] for register in (SMALL, taken, SMALL.with_level(2))] == [1, 2, 1]
    assert decode_untrusted(taken.encode()) == taken


def test_the_level_is_kept_and_is_1_where_nobody_wrote_one() -> None:
    """The level is kept, and is 1 in registers without the field, which are of the first version."""
    raised = SMALL.with_level(2)

    assert (SMALL.level, raised.level, raised.version) == (1, 2, SMALL.version + 1)
    assert decode_untrusted(raised.encode()) == raised
    assert decode_untrusted(SMALL.encode()).level == 1

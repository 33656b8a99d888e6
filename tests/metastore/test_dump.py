"""The exported register: whole or refused; and the cluster that goes on from it, which is another one."""

from __future__ import annotations

import attrs
import pytest

from tests.virtuallog.contract.test_register import SMALL
from virtuallog.contract.chain import SegmentId, validate
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError
from virtuallog.contract.register import NodeEntry
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.validation import check_proposal
from virtuallog_metastore.disaster_recovery.dump import Dump, decode_untrusted, dump
from virtuallog_metastore.disaster_recovery.revival import LEAP, revive

ENTRY = NodeEntry(store_id=b"s" * 16, addresses=("a:1",), roles=frozenset())
REGISTER = attrs.evolve(SMALL, nodes={NodeId(node): ENTRY for node in (1, 2, 3)})
EXPORTED = dump(REGISTER.encode())
ONE, TWO = NodeId(1), NodeId(2)


def test_what_is_exported_is_imported() -> None:
    """An exported register is imported byte for byte."""
    assert decode_untrusted(EXPORTED.encode()) == EXPORTED == Dump(REGISTER, REGISTER.encode())


def test_a_flipped_bit_anywhere_is_noticed() -> None:
    """A flipped bit anywhere is noticed: in the head, in the register, in the checksum."""
    whole = EXPORTED.encode()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptionError, MalformedError)):
            decode_untrusted(bytes(damaged))


def test_a_cut_file_is_refused() -> None:
    """A file cut at any place is refused."""
    whole = EXPORTED.encode()
    for size in range(len(whole)):
        with pytest.raises((CorruptionError, MalformedError)):
            decode_untrusted(whole[:size])


def test_another_file_and_a_later_format_say_so() -> None:
    """The error names another kind of file and a later format."""
    with pytest.raises(MalformedError, match="not a file of `virtuallog metastore export`"):
        decode_untrusted(b"a letter to grandmother")
    later = bytearray(EXPORTED.encode())
    later[12] = 9
    with pytest.raises(MalformedError, match="format 9; this program reads format 1"):
        decode_untrusted(bytes(later))


def test_the_cluster_that_goes_on_is_another_one_with_the_same_log() -> None:
    """The cluster that goes on has another id, a version far above any decided one, and the same
    segments and nodes."""
    decision = revive(EXPORTED, [TWO, ONE])
    register = decode_register(decision.proposal.value)

    check_proposal(decision.proposal)
    validate(register.chain)
    assert decision.version == register.version == REGISTER.version + LEAP
    assert register.cluster != REGISTER.cluster
    assert register.members == decision.proposal.members == (ONE, TWO)
    assert (register.chain.segments, register.nodes) == (REGISTER.chain.segments, REGISTER.nodes)
    assert SegmentId(register.version + 1, 0) > SegmentId(REGISTER.version + 1000, (1 << 63) - 1)


def test_the_same_import_on_several_nodes_is_one_cluster_and_another_import_another() -> None:
    """The id of the new cluster follows from the import and its members."""
    assert revive(EXPORTED, [ONE, TWO]) == revive(EXPORTED, [TWO, ONE])
    clusters = {
        decode_register(revive(exported, members).proposal.value).cluster
        for exported in (EXPORTED, dump(attrs.evolve(REGISTER, members=(ONE,)).encode()))
        for members in ([ONE], [TWO], [ONE, TWO])
    }
    assert len(clusters) == 6


@pytest.mark.parametrize("members", [[], [1, 1], [9], [1, 9]], ids=str)
def test_members_must_be_nodes(members: list[int]) -> None:
    """A member that is not in the file has no directory to import it into, and is refused."""
    with pytest.raises(InvalidSettingError, match="members"):
        revive(EXPORTED, [NodeId(member) for member in members])

"""Findings about the register, the nodes and the kinds, and about obstacles to a trim."""

from __future__ import annotations

import attrs

from tests.server.diagnosis.evidence_samples import CLOSED, NODES, about, member, node, picture, segment, state, the
from virtuallog.contract.diagnosis import COMBINED, Evidence
from virtuallog.contract.types import NodeId
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import NodeFacts, SegmentFacts
from virtuallog_server.diagnosis.core.finding import Finding, Severity, Topic, all_well


def test_a_node_lags_behind_the_register() -> None:
    """A change is decided, and one node does not follow it yet."""
    found = the(about(picture(more={2: node(2, version=1)}), Topic.CHAIN), "node 2 lags behind")

    assert found.weight is Severity.NOTE
    assert "it knows version 1 of the register, which is at 2" in found.statement
    assert "does not reach a majority of the MetaStore" in found.next


def test_a_version_is_on_its_way() -> None:
    """An accepted value that is not known to be decided: the next reader completes it."""
    members = (member(1), member(2, accepted=True), member(3))
    found = the(about(picture(members=members), Topic.CHAIN), "the next version of the register is on its way")

    assert found.because == ("member 2 has accepted it",)
    assert "nodes 1, 2 and 3 do so about once a second" in found.next


def test_nodes_that_are_of_no_use_are_named() -> None:
    """Silent, expected, a stranger, without a role: each with its reason."""
    others = {
        1: NodeFacts(node=NodeId(1), problem="no answer", is_expected=True),
        2: NodeFacts(node=NodeId(2), problem="it has another data directory than the register names", version=2),
        3: node(3, failures=("native: a bad block",), healing=("log server 2 has failed, no spare node",)),
    }
    found = about(picture(more=others), Topic.CHAIN)

    assert the(found, "node 1 is expected").weight is Severity.NOTE
    assert "another data directory" in the(found, "node 2 takes no part").because[0]
    assert the(found, "node 3 refuses a role").because == ("native: a bad block",)
    assert the(found, "node 3 says: log server 2 has failed, no spare node").weight is Severity.NOTE


def test_the_level_of_the_cluster_holds_back_a_kind() -> None:
    """The finding names the kind, and the node that holds it back."""
    held = picture(since={"native": 1, "striped": 4}, more={2: node(2, protocol=4), 3: node(3, protocol=4)})
    found = the(
        about(held, Topic.CHAIN), "striped cannot be used yet: the cluster is at protocol version 3, it needs 4"
    )

    assert found.because == ("node 1 has not announced it",)
    assert all_well(conclude(held))


def test_a_level_that_is_about_to_rise() -> None:
    """All have announced the version: a node raises the level by itself."""
    about_to = picture(since={"striped": 4}, more={number: node(number, protocol=4) for number in NODES})

    assert "rises by itself" in the(about(about_to, Topic.CHAIN), "striped cannot be used yet").next


def test_where_the_log_begins() -> None:
    """As far as a majority has trimmed, within the chain."""
    trimmed = [state(100, trim=42), state(100, trim=42), state(100, trim=42)]
    found = about(picture(before=trimmed), Topic.TRIM)

    assert the(found, "the log begins at 42").because == ("the chain starts at 0", "segment 1.a is trimmed up to 42")
    assert all(finding.weight is Severity.WELL for finding in found)


def test_a_trim_is_half_done() -> None:
    """One server took it, the others did not hear of it: the next trim completes it."""
    found = about(picture(before=[state(100, trim=50), state(100, trim=42), state(100, trim=42)]), Topic.TRIM)

    assert the(found, "a trim of segment 1.a is half done: only node 1 took it").weight is Severity.NOTE
    assert the(found, "the log begins at 42").weight is Severity.WELL


def test_who_blocks_the_space() -> None:
    """One server missed the trim, one does not answer."""
    late = about(picture(before=[state(100, trim=50), state(100, trim=50), state(100, trim=42)]), Topic.TRIM)
    silent = about(picture(before=[state(100, trim=50), state(100, trim=50), None]), Topic.TRIM)

    assert the(late, "node 3 may still keep").because == ("node 3 has missed a trim",)
    assert the(silent, "node 3 may still keep").because == ("node 3: no answer",)


def test_stripes_are_trimmed_each_to_a_place_of_its_own() -> None:
    """Trims of one stripe say nothing about another one: only servers of one stripe are compared."""
    found = picture()
    trims = {"stripe 0, node 1": 8, "stripe 0, node 2": 8, "stripe 1, node 1": 7, "stripe 1, node 2": 7}

    def told(**changed: int) -> list[str]:
        parts = [Evidence(source, {"trim": trim}) for source, trim in {**trims, **changed}.items()]
        whole = Evidence(COMBINED, {"tail": 100, "sealed": True, "trim": 7, "spare": 0})
        facts = SegmentFacts(segment=found.segments[0].segment, evidence=(*parts, whole))
        striped = attrs.evolve(found, segments=(facts, found.segments[1]))
        return [finding.statement for finding in about(striped, Topic.TRIM)]

    assert told() == ["the log begins at 7"]
    (_, half) = told(**{"stripe 1, node 2": 9})
    assert half == "a trim of segment 1.a is half done: only stripe 1, node 2 took it"


def test_an_archive_whose_files_are_missing_is_not_whole() -> None:
    """In the words of its kind; nodes that are started help nothing."""
    found = picture()
    missing = Evidence("data files", {"files": 3}, "missing, or of another length: part-2")
    whole = Evidence(COMBINED, {"tail": 100, "sealed": True, "trim": 0}, missing.problem)
    archived = SegmentFacts(
        segment=found.segments[0].segment, evidence=(Evidence("manifest", {"tail": 100}), missing, whole)
    )

    told = the(about(attrs.evolve(found, segments=(archived, found.segments[1])), Topic.CHAIN), "is not whole")
    assert (told.because, told.next) == (("data files: missing, or of another length: part-2",), "")


def test_an_archive_without_its_manifest_is_put_back_from_the_copy_that_nodes_keep() -> None:
    """No node is silent, so none is to be started: there is a command for it, as long as they keep that copy."""
    found = picture()
    parts = (Evidence("manifest", {}, "there is none"), Evidence("hot copy", {"release_at_ms": 500_000}))
    whole = Evidence(COMBINED, {"tail": None, "sealed": True, "trim": None, "by": [], "orders": []}, "there is none")

    def told(evidence: tuple[Evidence, ...], topic: Topic, words: str) -> Finding:
        archived = SegmentFacts(segment=segment(CLOSED, 0, 100, "archive"), evidence=evidence)
        return the(about(attrs.evolve(found, segments=(archived, found.segments[1])), topic), words)

    undo = "`virtuallog archive 1.a --undo` puts the nodes' own copy back, while they keep it"
    assert told((*parts, whole), Topic.CHAIN, "is not whole").next == undo
    trim = told((*parts, whole), Topic.TRIM, "a trim past 0 may fail: not all of segment 1.a (archive) is there")
    assert (trim.next, trim.because) == (f"{undo}, then trim again", ("manifest: there is none",))
    assert told((parts[0], whole), Topic.CHAIN, "is not whole").next == ""


def test_a_segment_is_trimmed_as_a_whole_and_still_there() -> None:
    """The client that trimmed it was interrupted before the chain was put."""
    found = about(picture(before=[state(100, trim=100)] * 3), Topic.TRIM)

    leftover = the(found, "segment 1.a is trimmed as a whole, and still in the chain")
    assert (leftover.segment, leftover.weight) == (CLOSED, Severity.NOTE)
    assert "virtuallog truncate" in leftover.next


def test_a_trim_into_a_closed_segment_waits_for_its_servers() -> None:
    """Too few of them answer: which, and from where on."""
    found = picture(before=[state(100), None, None])

    blocked = the(about(found, Topic.TRIM), "a trim past 0 cannot be done: too few servers of segment 1.a answer")
    assert blocked.because == ("node 2: no answer", "node 3: no answer")
    short = the(about(found, Topic.CHAIN), "segment 1.a (native, 0 to 100) is not whole: 1 of 3 answers")
    assert short.weight is Severity.WEAK


def test_nodes_keep_what_was_archived_for_a_while() -> None:
    """The finding says until when, and that no action is needed."""
    found = picture()
    archived = SegmentFacts(
        segment=attrs.evolve(found.segments[0].segment, kind="archive"),
        evidence=(
            Evidence("manifest", {"tail": 100, "sealed": True, "release_at_ms": 8_000_000}),
            Evidence(COMBINED, {"tail": 100, "sealed": True, "trim": 0}),
        ),
    )
    kept = attrs.evolve(found, segments=(archived, found.segments[1]), now_ms=500_000)

    told = the(about(kept, Topic.TRIM), "nodes keep a copy of their own of segment 1.a, beside the archive")
    assert told.because == ("it is kept for 2 h 5 min more",)
    over = the(about(attrs.evolve(kept, now_ms=9_000_000), Topic.TRIM), "nodes keep a copy")
    assert over.because == ("its time is over",)
    assert all_well(conclude(kept))

"""Templates against values that are made to break out of them: in a payload, a path, a name of a node, a finding, an address."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.console.pages.page_reader import PageReader, read
from virtuallog.contract.caller_roles import Role
from virtuallog_console.access.core.caller import Caller, Proof
from virtuallog_console.pages.chain_page import timeline_of, wrong_in
from virtuallog_console.pages.entries_page import previous_start
from virtuallog_console.pages.frame import LINKS
from virtuallog_console.pages.live_page import charts_of
from virtuallog_console.pages.renderer import render
from virtuallog_console.pages.tree_pages import steps_of
from virtuallog_console.views.chain import ChainNodeRow, ChainView, FindingRow, SegmentRow, SourceRow
from virtuallog_console.views.database_commands import CommandRow, DatabaseEntry
from virtuallog_console.views.entries import EntryPage, EntryRow, GapRow
from virtuallog_console.views.holds import DroppedSegment, HoldsView, NeedRow, TrimEffect
from virtuallog_console.views.live import LiveSample, LiveView, SwapRow
from virtuallog_console.views.nodes import ClockRow, DiskRow, NodeRow, NodesView, ReplicaRow
from virtuallog_console.views.sessions import SessionRow, SessionServerRow, SessionsView
from virtuallog_console.views.tree import ChildRow, StatRow, ZnodeView
from virtuallog_console.views.values import Decoder, Value

ATTACKS = (
    "<script>alert(1)</script>",
    "</pre></textarea></title><img src=x onerror=alert(1)>",
    "\" onfocus=alert(1) autofocus x=\"' onmouseover='alert(1)",
    "javascript:alert(1)//{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\u2066\0\x1b[2J\u2028\ud800",
    "&lt;script&gt;&#x22;",
)
HUGE = (1 << 63) - 1
WHEN = (1 << 64) - 1


def page(template: str, **values: Any) -> PageReader:
    """A page with these values, read; nothing of them has become more than text."""
    attack = values.pop("attack")
    caller = Caller(attack, Role.CLIENT, Proof.PROXY)
    frame = {"links": LINKS, "here": attack, "caller": caller, "cluster": attack, "now_ms": 1.5, "is_whole": True}
    text = render(template, **frame, **values)
    assert not {*text} & {*"\u202e\u2066\0\x1b\u2028\ud800"}
    assert attack == "&lt;script&gt;&#x22;" or "<" not in attack or attack not in text
    reader = read(text)
    assert "49" not in reader.text or "{{" not in attack
    return reader


def value(attack: str, **more: Any) -> Value:
    return Value(size=10, text=attack, **more)


def entry(attack: str, **more: Any) -> EntryRow:
    return EntryRow(
        position=HUGE - 1, time_ms=WHEN, session=attack, sequence=HUGE, batch=range(HUGE - 1, HUGE), **more
    )  # fmt: skip


def database(attack: str) -> DatabaseEntry:
    command = CommandRow(
        operation=attack,
        path=attack,
        time_ms=WHEN,
        session=attack,
        details={attack: (attack, attack), "acl": {attack: attack}, "flag": True},
        value=value(attack),
    )
    hidden = attrs.evolve(command, value=Value(size=3, withheld=attack), in_multi=True)
    return DatabaseEntry(engines=(attack,), commands=(command, hidden), more=3, problem=attack)


@pytest.fixture(params=ATTACKS)
def attack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def words(attack: str) -> str:
    """The part of the attack that a reader sees as it is."""
    return attack.replace("\u202e", "").partition("\u2066")[0].strip()


def test_the_chain(attack: str, words: str) -> None:
    """Kinds, configs, findings, reports and reasons."""
    finding = FindingRow(weight="trouble", topics=(attack,), statement=attack, because=(attack,), next=attack)
    source = SourceRow(source=attack, facts={attack: attack, "n": (1, attack)}, problem=attack)
    segment = SegmentRow(
        id="1.ff", kind=attack, start=0, stop=None, size=HUGE, state="active", trimmed_to=3, servers=(1, 2),
        config={attack: attack}, findings=(finding,), evidence=(source,), problem=attack,
    )  # fmt: skip
    node = ChainNodeRow(node=1, roles=(attack,), is_expected=True, problem=attack, findings=(finding,))
    view = ChainView(
        cluster=attack, segments=(segment,), nodes=(node,), members=(source,), findings=(finding,), problem=attack, is_well=False
    )  # fmt: skip
    found = page(
        "chain.html", attack=attack, view=view, wrong=[*wrong_in(view)], timeline=timeline_of(view.segments)
    )  # fmt: skip

    assert found.text.count(" ".join(words.split())) >= 20


def test_entries(attack: str, words: str) -> None:
    """Payloads, commands, what was searched for, and the time in the form."""
    rows = (
        entry(attack, value=value(attack, is_cut=True)),
        entry(attack, database=database(attack)),
        entry(attack, value=Value(size=3, withheld=attack)),
        GapRow(kind="lost", start=1, stop=9),
    )
    shown = EntryPage(start=0, next=HUGE, rows=rows, trim_point=0, tail=HUGE, problem=attack)
    common = {"decoder": "auto", "decoders": ["auto", "hex"]}
    found = page(
        "entries.html", attack=attack, page=shown, count=5, former=previous_start(shown, 5), text=attack, time=attack,
        is_finished=False, leaves_out=False, kept="", has_database=True, **common,
    )  # fmt: skip
    alone = page(
        "entry.html", attack=attack, page=shown, position=HUGE - 1, row=rows[0], is_all=False, **common
    )  # fmt: skip
    page("entry.html", attack=attack, page=shown, position=HUGE - 1, row=rows[1], is_all=True, **common)
    page("tail.html", attack=attack, page=shown, rows=rows, rows_max=200)

    assert found.text.count(" ".join(words.split())) >= 10
    assert " ".join(words.split()) in alone.text


def test_the_tree(attack: str, words: str) -> None:
    """Paths, names of children, ACLs, values and reasons; each link has the whole path in it."""
    path = f"/{attack}"
    stat = StatRow(
        czxid=1, mzxid=1, pzxid=1, ctime_ms=WHEN, mtime_ms=-WHEN, version=1, cversion=1, aversion=1, children=2, data_bytes=3
    )  # fmt: skip
    child = ChildRow(
        name=attack, path=path, data_bytes=1, children=1, owner=attack, mtime_ms=WHEN, version=1, is_masked=True
    )  # fmt: skip
    view = ZnodeView(
        path=path, server=1, found=True, stat=stat, value=value(attack, is_cut=True), acl=(attack,), owner=attack,
        children=(child,), next=attack, data_watches=1, child_watches=1, problem=attack,
    )  # fmt: skip
    common = {
        "steps": steps_of(path), "after": attack, "is_masked": True, "is_admin": True, "nodes": [1, 2], "is_all": False, "decoder": "auto",
        "decoders": ["auto"],
    }  # fmt: skip
    found = page("tree.html", attack=attack, view=view, **common)
    withheld = attrs.evolve(view, children=(), children_withheld=attack, value=Value(size=3, withheld=attack))
    page("tree.html", attack=attack, view=withheld, **common)
    row = SessionRow(session=attack, timeout_ms=1, attachments=1, ephemerals=1, has_more_ephemerals=True, server=None)
    server = SessionServerRow(node=1, problem=attack)
    page(
        "sessions.html", attack=attack, view=SessionsView(sessions=(row,), servers=(server,), next=attack, problem=attack)
    )  # fmt: skip

    assert " ".join(words.split()) in found.text


def test_nodes_and_holds(attack: str) -> None:
    """Addresses, roles, reasons, versions; names of needs and refusals."""
    replica = ReplicaRow(state=attack, waiting_for=attack, problem=attack)
    row = NodeRow(
        node=1, state="failing", addresses=(attack,), listed_roles=(attack,), roles=(attack,), software=attack, store_id=attack,
        not_ready=(attack,), failures=(attack,), healing=(attack,), replica=replica, clock=ClockRow(ahead_ms=-9.5, error_ms=1.0),
        disk=DiskRow(free_bytes=1, size_bytes=1 << 62), problem=attack,
    )  # fmt: skip
    found = page(
        "nodes.html", attack=attack, view=NodesView(nodes=(row,), problem=attack), rows=[row], wrong=("failing",)
    )  # fmt: skip
    need = NeedRow(kind=attack, name=attack, position=1, keeps=2, milliseconds=3, blocks=True)
    holds = HoldsView(
        trim_point=0, tail=HUGE, has_database=True, allowed=1, reasons=(attack,), needs=(need,), more=3, archived=(range(3),), problem=attack
    )  # fmt: skip
    part = DroppedSegment(id=attack, kind=attack, positions=range(3), is_whole=True)
    effect = TrimEffect(
        position=3, dropped=range(3), segments=(part,), hurts=(need,), refusal=attack, problem=attack
    )  # fmt: skip
    page("holds.html", attack=attack, view=holds, effect=effect, position=3)
    page("sentence.html", attack=attack, title=attack, text=attack)

    assert "9.5 ms behind, within 1.0 ms" in found.text


def test_live_figures(attack: str) -> None:
    """Kinds and reasons; figures that are not known are holes, and a table says the same."""
    samples = tuple(
        LiveSample(
            number=number, time_ms=number * 1000, tail=number or None, entries_per_second=None if number == 2 else 5.0 * number,
            tail_ms=1.5, kind=attack, silent={2: attack}, problem=attack, answering=(1,), failing=(1,),
        )
        for number in range(4)
    )  # fmt: skip
    swaps = tuple(
        SwapRow(time_ms=1000 * each, version=each, segments=each, kind=attack, position=each) for each in (1, 2)
    )
    view = LiveView(samples=samples, swaps=swaps)
    charts = charts_of(view)
    found = page(
        "live.html", attack=attack, view=view, newest=samples[-1], charts=charts, rows=samples[::-1], table_rows=60, minutes=5
    )  # fmt: skip

    assert [len(chart.marks) for chart in charts] == [1, 1, 1]
    assert charts[0].summary == "Throughput: from 0 to 15, now 15.0. 1 swap in this time."
    assert [chart.is_known for chart in charts] == [True, True, False]
    assert charts[0].curves[0].path.count("M") == 2, "the sample that is not known is a hole"
    assert "No value is known" in found.text


def test_a_decoder_is_one_of_ours() -> None:
    """The names that stand in links need no escape."""
    assert all(each.value.isalpha() for each in Decoder)

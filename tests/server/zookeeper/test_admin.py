"""Four-letter words and admin pages: what programs cut apart, and what they must not be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio

from tests.server.process.console.http_client import Answer, get
from virtuallog_server.process.console.http_server import HttpServer
from virtuallog_server.zookeeper.admin.admin_pages import AdminPages
from virtuallog_server.zookeeper.admin.facts import (
    LISTED_MAX,
    ConnectionFacts,
    Latency,
    Mode,
    ServerFacts,
    Traffic,
    WatchFacts,
)
from virtuallog_server.zookeeper.admin.four_letter_words import FourLetterWords

SESSION = 0x100000000000007
CLIENT = ConnectionFacts(
    address="127.0.0.1:40000", session=SESSION, timeout_ms=10_000, outstanding=1, received=9, sent=8, last_zxid=0x2A
)
FACTS = ServerFacts(
    server=1,
    mode=Mode.LEADER,
    zxid=0x2A,
    nodes=5,
    ephemerals=2,
    sessions=1,
    list_ephemerals=lambda: {SESSION: ["/lock/a", "/lock/b"]},
    list_sessions=lambda: {SESSION: 10_000},
    list_watches=lambda: WatchFacts(paths_of={SESSION: ["/lock", "/queue"], 9: ["/lock"]}),
    traffic=Traffic(
        connections=[CLIENT],
        watches=3,
        latency=Latency(least=0.4, mean=1.25, most=12.0),
        received=9,
        sent=8,
        outstanding=1,
    ),
    settings={"clientPort": "2181"},
    environment={"host.name": "here"},
    members=["server.1=127.0.0.1:7001:0:participant;127.0.0.1:2181"],
)


def words(facts: ServerFacts = FACTS, whitelist: tuple[str, ...] = ("*",)) -> FourLetterWords:
    return FourLetterWords(whitelist, lambda: facts)


def lines(word: bytes, facts: ServerFacts = FACTS) -> list[str]:
    return words(facts).answer(word).decode().splitlines()


@pytest.mark.parametrize("word", [b"ruok", b"isro", b"srvr", b"stat", b"cons", b"mntr", b"conf", b"envi", b"dirs"])
def test_only_words_that_list_watches_look_at_all_of_them(word: bytes) -> None:
    """There may be half a million, and clients send `isro` by themselves: all others would wait for that."""

    def look() -> WatchFacts:
        raise AssertionError

    assert lines(word, attrs.evolve(FACTS, list_watches=look))


@pytest.mark.parametrize("word", [b"stat", b"cons", b"dump", b"wchc", b"wchp"])
def test_lists_end_and_say_how_many_more_there_are(word: bytes) -> None:
    """A connection without a session may ask for them, as often as it likes."""
    many = attrs.evolve(
        FACTS, sessions=LISTED_MAX + 7, ephemerals=LISTED_MAX + 7,
        traffic=attrs.evolve(FACTS.traffic, connections=[CLIENT] * (LISTED_MAX + 7)),
        list_watches=lambda: WatchFacts(paths_of={SESSION: ["/a"]}, more=7),
    )  # fmt: skip
    said = lines(word, many)
    assert "... and 7 more" in said
    assert len(said) < LISTED_MAX + 15
    assert "... and 7 more" not in lines(word)


def test_who_asks_whether_a_server_is_alive_makes_it_look_at_nothing() -> None:
    """Programs that watch ask each second."""

    def look() -> ServerFacts:
        raise AssertionError

    assert FourLetterWords(("ruok",), look).answer(b"ruok") == b"imok"


def test_what_is_not_on_the_whitelist_is_refused_in_zookeepers_words() -> None:
    """And nothing is looked at for it."""

    def look() -> ServerFacts:
        raise AssertionError

    strict = FourLetterWords(("srvr",), look)
    assert strict.answer(b"mntr") == b"mntr is not executed because it is not in the whitelist.\n"


def test_words_are_told_apart_from_lengths_of_frames() -> None:
    """A frame as long as a word reads would be larger than any limit."""
    known = words()

    assert all(known.is_word(word) for word in (b"ruok", b"srvr", b"mntr", b"isro"))
    assert not any(known.is_word(prefix) for prefix in (b"\0\0\0\x2d", b"ruo", b"", b"RUOK", b"abcd"))


def test_the_version_can_be_cut_out_of_envi() -> None:
    """kazoo takes what stands before the first letter or dash, and gets it with one recv of 8192 bytes."""
    answer = words().answer(b"envi")

    assert b"\nzookeeper.version=3.8.0-" in answer
    assert len(answer) < 1400


@pytest.mark.parametrize(
    ("mode", "serving", "said"),
    [(Mode.LEADER, True, b"rw"), (Mode.READ_ONLY, True, b"ro"), (Mode.FOLLOWER, False, b"null")],
)
def test_isro_says_whether_this_is_a_full_server(mode: Mode, serving: bool, said: bytes) -> None:
    """Without a newline: clients compare all of it."""
    assert words(attrs.evolve(FACTS, mode=mode, serving=serving)).answer(b"isro") == said


def test_srvr_and_stat_have_zookeepers_lines() -> None:
    """In its order; stat has the clients in between."""
    counters = [
        "Latency min/avg/max: 0/1.25/12", "Received: 9", "Sent: 8", "Connections: 1", "Outstanding: 1", "Zxid: 0x2a",
        "Mode: leader", "Node count: 5",
    ]  # fmt: skip
    assert lines(b"srvr")[1:] == counters
    assert lines(b"stat")[1:] == ["Clients:", " /127.0.0.1:40000[1](queued=1,recved=9,sent=8)", "", *counters]


def test_mntr_is_a_table_of_keys_and_values() -> None:
    """Separated by tabs, every key begins with zk_."""
    table = dict(line.split("\t") for line in lines(b"mntr"))

    assert all(key.startswith("zk_") for key in table)
    shown = [table[f"zk_{key}"] for key in ("server_state", "znode_count", "watch_count", "ephemerals_count")]
    assert shown == ["leader", "5", "3", "2"]


def test_who_watches_what_by_session_and_by_path() -> None:
    """One set of watches, counted once and turned both ways round, indented by tabs as scripts expect it."""
    assert lines(b"wchs") == ["2 connections watching 2 paths", "Total watches:3"]
    assert lines(b"wchc") == ["0x9", "\t/lock", f"{SESSION:#x}", "\t/lock", "\t/queue"]
    assert lines(b"wchp") == ["/lock", f"\t{SESSION:#x}", "\t0x9", "/queue", f"\t{SESSION:#x}"]


def test_dump_lists_sessions_and_their_ephemerals() -> None:
    """An operator sees the sessions of stale locks: each session in hexadecimal, as clients print theirs, above its paths."""
    assert lines(b"dump")[-3:] == [f"{SESSION:#x}", "\t/lock/a", "\t/lock/b"]


def test_a_server_that_serves_nobody_says_so() -> None:
    """But it is up: ruok."""
    silent = attrs.evolve(FACTS, serving=False)

    assert lines(b"ruok", silent) == ["imok"]
    assert lines(b"srvr", silent) == ["This ZooKeeper instance is not currently serving requests"]


def test_counts_are_reset_by_words() -> None:
    """And an answer says that it was done."""
    resets: list[None] = []
    both = FourLetterWords(("*",), lambda: FACTS, lambda: resets.append(None))

    assert both.answer(b"srst") == b"Server stats reset.\n"
    assert both.answer(b"crst") == b"Connection stats reset.\n"
    assert len(resets) == 2


@pytest.fixture
async def ask(nursery: trio.Nursery) -> Callable[[str], Any]:
    facts = [FACTS]
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(HttpServer(AdminPages(lambda: facts[0])).run, listeners)
    port = listeners[0].socket.getsockname()[1]

    async def asked(path: str, now: ServerFacts = FACTS, host: str = "localhost") -> Answer:
        facts[0] = now
        return await get(port, path, host)

    return asked


async def test_admin_pages_say_the_same_in_json(ask: Callable[..., Any]) -> None:
    """Each with its name and an error, which is null; the words' own names do as well."""
    for path in ("/commands/stats", "/commands/stat"):
        said = json.loads((await ask(path)).text)
        assert (said["command"], said["error"], said["node_count"]) == ("stats", None, 5)
        assert said["server_stats"]["server_state"] == "leader"
    assert json.loads((await ask("/commands/leader")).text)["is_leader"] is True
    assert "/commands/monitor\n" in (await ask("/commands")).text


async def test_admin_pages_are_for_requests_that_name_this_machine(ask: Callable[..., Any]) -> None:
    """Those of another name are refused: see `virtuallog_server.process.console.host_check`."""
    assert (await ask("/commands/dump", host="attacker.example")).status == 421


async def test_admin_pages_know_what_they_do_not_know(ask: Callable[..., Any]) -> None:
    """An unknown command, and a server without a tree to tell of."""
    unknown = await ask("/commands/restore")
    silent = json.loads((await ask("/commands/dump", attrs.evolve(FACTS, serving=False))).text)

    assert (unknown.status, json.loads(unknown.text)["error"]) == (404, "Unknown command")
    assert "not currently serving" in silent["error"]


@pytest.mark.parametrize(
    "page", ["connections", "dump", "watches", "watches_by_path", "watch_summary", "monitor", "conf"]
)
async def test_every_page_is_json(ask: Callable[..., Any], page: str) -> None:
    """Also where the facts are keyed by numbers of sessions or are objects: monitoring parses every page the same way."""
    assert json.loads((await ask(f"/commands/{page}")).text)["error"] is None

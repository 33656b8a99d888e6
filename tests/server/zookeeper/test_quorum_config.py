"""/zookeeper/config: servers announce themselves, and `reconfig` changes the list for clients."""

from __future__ import annotations

import pytest

from virtuallog_database.tree.commands import SetData
from virtuallog_database.tree.paths import CONFIG
from virtuallog_database.tree.results import Error, Stat
from virtuallog_server.zookeeper.wire import quorum_config
from virtuallog_server.zookeeper.wire.quorum_config import (
    InvalidConfigError,
    QuorumChange,
    QuorumConfig,
    StaleConfigError,
    announce,
    announced,
    change,
    parse,
    reconfigured,
)

OBSERVER = "server.100=0.0.0.0:1234:2345:observer;0.0.0.0:3456"
STAT = Stat(1, 1, 0, 0, 7, 0, 0, 0, 0, 0, 1)


def ensemble(size: int = 3) -> QuorumConfig:
    config = QuorumConfig({}, 0)
    for number in range(1, size + 1):
        larger = announce(config, number, f"127.0.0.1:{7000 + number}", f"127.0.0.1:{2180 + number}")
        assert larger is not None
        config = larger
    return config


def asked(
    joining: str | None = None, leaving: str | None = None, members: str | None = None, version: int = -1
) -> QuorumChange:
    return QuorumChange(joining, leaving, members, version)


def test_servers_announce_themselves_once() -> None:
    """Each line is there once, in order of numbers, and the version comes last, without a newline behind it."""
    config = ensemble()

    assert config.render().split("\n") == [
        "server.1=127.0.0.1:7001:0:participant;127.0.0.1:2181",
        "server.2=127.0.0.1:7002:0:participant;127.0.0.1:2182",
        "server.3=127.0.0.1:7003:0:participant;127.0.0.1:2183",
        "version=3",
    ]
    assert announce(config, 2, "127.0.0.1:7002", "127.0.0.1:2182") is None
    assert parse(config.render()) == config


def test_the_ports_of_a_line_differ() -> None:
    """ZooKeeper's own parser refuses a whole list for one line with equal ports: Curator logged an error on each connect, and followed no list."""
    ports = [member.line.split(":")[1:3] for member in ensemble().members.values()]

    assert all(quorum != election for quorum, election in ports)


def test_a_line_of_a_former_version_stays_until_its_server_starts_again() -> None:
    """It had equal ports. Other changes do not wait for it, and its server replaces it."""
    former = "server.2=127.0.0.1:7002:7002:participant;127.0.0.1:2182"
    text = ensemble().render().replace(ensemble().members[2].line, former)

    assert former in change(parse(text), asked(leaving="3")).render()
    again = announce(parse(text), 2, "127.0.0.1:7002", "127.0.0.1:2182")
    assert again is not None
    assert again.members == ensemble().members


def test_a_server_that_has_moved_says_so() -> None:
    """Its line is replaced, as clients that read the list would else dial a port without a listener."""
    moved = announce(ensemble(), 2, "127.0.0.1:7002", "127.0.0.1:9999")

    assert moved is not None
    assert moved.members[2].line.endswith(";127.0.0.1:9999")
    assert len(moved.members) == 3


def test_an_observer_joins_and_leaves() -> None:
    """The steps of kazoo's suite. Each change is a new version."""
    joined = change(ensemble(), asked(joining=OBSERVER))
    assert OBSERVER in joined.render()

    left = change(joined, asked(leaving="100"))
    assert OBSERVER not in left.render()
    assert left.version == joined.version + 1 == ensemble().version + 2


def test_what_was_asked_for_on_top_of_another_version_is_refused() -> None:
    """Before anything else is looked at, as ZooKeeper does."""
    config = ensemble()

    assert change(config, asked(joining=OBSERVER, version=config.version)).version == config.version + 1
    with pytest.raises(StaleConfigError):
        change(config, asked(joining="some thing", version=config.version + 1))


@pytest.mark.parametrize(
    "wrong",
    [
        asked(joining="some thing"),
        asked(joining="server.4=127.0.0.1:1:2:participant;3"),
        asked(joining="server.4=127.0.0.1:1:2;3"),
        asked(joining="server.4=127.0.0.1:1:2:observer;3\nrubbish"),
        asked(joining="server.4=127.0.0.1:1:1:observer;3"),
        asked(joining="server.4=127.0.0.1:1:65536:observer;3"),
        asked(joining="server.4=127.0.0.1:1:2:observer;65536"),
        asked(joining="server.4=127.0.0.1:1:2:observer;here"),
        asked(joining="server.4=127.0.0.1:1:2:observer;127.0.0.1:3:4"),
        asked(joining="server.1=127.0.0.1:7001:7001:participant;127.0.0.1:2181"),
        asked(joining=OBSERVER, leaving="1,2"),
        asked(leaving="1,2,3"),
        asked(leaving="one"),
        asked(members=OBSERVER),
        asked(joining=",".join(f"server.{n}=h{'o' * 200}st:1:2:observer;3" for n in range(10, 500))),
    ],
)
def test_what_cannot_be_is_refused(wrong: QuorumChange) -> None:
    """No server becomes a part of the log by a line of text, one must be left, the list does not grow for ever, and ZooKeeper's own parser
    takes it.
    """
    with pytest.raises(InvalidConfigError):
        change(ensemble(), wrong)


def test_a_whole_new_list_may_leave_servers_out() -> None:
    """A server that is not on the new list has left: so the non-incremental `reconfig` removes members, without a list of leaving ones."""
    config = ensemble()
    lines = [config.members[1].line, "server.3=[::1]:7003:0;[::1]:2183", OBSERVER]

    assert sorted(change(config, asked(members="\n".join(lines))).members) == [1, 3, 100]


@pytest.mark.parametrize("request_", [asked(text := "9," * 500_000), asked(None, text), asked(None, None, text)])
def test_a_request_longer_than_any_list_is_refused_unread(request_: QuorumChange) -> None:
    """Any client may send one, without a right: 1 MB of servers to leave was read once for each member of the list, 2.9 s of the event loop with five."""
    with pytest.raises(InvalidConfigError, match="more text"):
        change(ensemble(5), request_)


def test_a_request_is_read_once_however_many_servers_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any client may ask, so the work must not grow with the product of both lists."""
    read: list[str] = []

    def counted(text: str) -> int:
        read.append(text)
        return int(text)

    monkeypatch.setattr(quorum_config, "_id", counted)
    assert sorted(change(ensemble(5), asked(leaving="2,3")).members) == [1, 4, 5]
    assert read == ["2", "3"]


def test_a_request_becomes_a_write_that_expects_what_it_was_computed_from() -> None:
    """Of two at once the tree refuses one, in any order."""
    config = ensemble()
    command = reconfigured(config.render().encode(), STAT, asked(joining=OBSERVER))

    assert isinstance(command, SetData)
    assert (command.path, command.version) == (CONFIG, STAT.version)
    assert command.data == change(config, asked(joining=OBSERVER)).render().encode()
    assert reconfigured(config.render().encode(), STAT, asked(joining="some thing")) is Error.BAD_ARGUMENTS
    assert reconfigured(config.render().encode(), STAT, asked(leaving="1", version=99)) is Error.BAD_VERSION


@pytest.mark.parametrize("found", [None, b"", b"rubbish", b"\xff", b"version=-5", b"version=\nversion=1"])
def test_a_server_announces_itself_whatever_it_finds(found: bytes | None) -> None:
    """The super user may write anything there; it must not keep servers from starting."""
    command = announced(found, STAT, number=1, address="127.0.0.1:7001", client="127.0.0.1:2181")

    assert isinstance(command, SetData)
    assert command.data == ensemble(1).render().encode()
    assert announced(command.data, STAT, number=1, address="127.0.0.1:7001", client="127.0.0.1:2181") is None

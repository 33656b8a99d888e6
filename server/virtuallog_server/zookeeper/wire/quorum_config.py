"""/zookeeper/config: which servers there are, for clients, and how `reconfig` changes it.                          Pure.

    server.1=127.0.0.1:7001:7001:participant;127.0.0.1:2181
    server.2=...
    version=5

ZooKeeper keeps its own quorum here. A virtual log keeps its quorum elsewhere: who orders and stores entries is in the chain, who
decides about the chain is in the MetaStore, and no server of the database votes on anything. So this znode is what it is for a client: a
list of addresses to connect to. Each server adds its own line when it begins to serve (`announce`), and one that is gone is taken off with
`reconfig -remove N`.

    reconfig                        here
    joining an observer             the line is added: in ZooKeeper, too, no process comes into being by that
    joining a participant           only one that is listed already (its addresses change): to have a part in the log, a
                                    node joins the cluster, `virtuallog node add`, and then announces itself
    leaving                         the line is removed; a server that is alive announces itself again when it starts
    a whole new list (newMembers)   likewise: no new participants, at least one is left

The line `version` is a counter, in hex as ZooKeeper's is, +1 with each change: what `reconfig -v` compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog_database.tree.commands import SetData
from virtuallog_database.tree.paths import CONFIG
from virtuallog_database.tree.results import Error, Stat

ANY_CONFIG: Final = -1
TEXT_BYTES_MAX: Final = 64 << 10
"""Of the list as a whole, some 600 servers, and of a request to change it."""
_MEMBER: Final = re.compile(
    r"server\.(?P<id>\d{1,9})=(?P<host>[^:;\s=,]+|\[[0-9a-fA-F:]+\]):(?P<ports>\d{1,5}:\d{1,5})"
    r"(?::(?P<role>participant|observer))?(?:;(?P<client>\S+))?"
)


class InvalidConfigError(Exception):
    """What was asked for cannot be read, or cannot be: BADARGUMENTS."""


class StaleConfigError(Exception):
    """It was asked for on top of another version: BADVERSION."""


@attrs.frozen
class Member:
    """One server."""

    id: int
    line: str
    """As it was given."""
    participant: bool


@attrs.frozen
class QuorumConfig:
    """What the znode says."""

    members: Mapping[int, Member]
    version: int

    def render(self) -> str:
        """The text of the znode; no newline at the end: `version` is what a client finds behind the last one."""
        lines = [self.members[number].line for number in sorted(self.members)]
        return "\n".join([*lines, f"version={self.version:x}"])


@attrs.frozen
class QuorumChange:
    """What a client asks `reconfig` for. None: not asked for."""

    joining: str | None
    leaving: str | None
    new_members: str | None
    from_version: int = ANY_CONFIG


def parse(text: str) -> QuorumConfig:
    """What the znode says.

    Raises:
        InvalidConfigError: nothing that we have written.
    """
    *lines, last = text.split("\n") if text else ["version=0"]
    key, _, version = last.partition("=")
    try:
        return QuorumConfig({member.id: member for member in map(_member, lines)}, _version(key, version))
    except ValueError as error:
        raise InvalidConfigError(f"no version: {last!r}") from error


def announce(config: QuorumConfig, number: int, listen: str, client: str) -> QuorumConfig | None:
    """With the line of a server that begins to serve; None: it is there already.

    Args:
        config: so far.
        number: of its node.
        listen: where its node listens, host:port.
        client: where it serves clients, host:port.
    """
    host, _, port = listen.rpartition(":")
    line = f"server.{number}={host}:{port}:{port}:participant;{client}"
    if number in config.members and config.members[number].line == line:
        return None
    return _next(config, {**config.members, number: Member(number, line, participant=True)})


def change(config: QuorumConfig, asked: QuorumChange) -> QuorumConfig:
    """What `reconfig` makes of the list.

    Raises:
        StaleConfigError: see there. Comes first, like ZooKeeper's.
        InvalidConfigError: see there.
    """
    if asked.from_version not in {ANY_CONFIG, config.version}:
        raise StaleConfigError(f"version {config.version:x}, not {asked.from_version:x}")
    # Anybody may ask: whether he has the right to is decided where the command is applied.
    if sum(len(text or "") for text in (asked.joining, asked.leaving, asked.new_members)) > TEXT_BYTES_MAX:
        raise InvalidConfigError("more text than a list of servers may have")
    if asked.new_members:
        members = {member.id: member for member in map(_member, _parts(asked.new_members))}
    else:
        joining, leaving = _parts(asked.joining or ""), _parts(asked.leaving or "")
        gone = set(map(_id, leaving))
        members = {number: member for number, member in config.members.items() if number not in gone}
        members |= {member.id: member for member in map(_member, joining)}
    _check(config, members)
    changed = _next(config, members)
    if len(changed.render().encode()) > TEXT_BYTES_MAX:
        raise InvalidConfigError("too many servers")
    return changed


def _check(config: QuorumConfig, members: Mapping[int, Member]) -> None:
    for member in members.values():
        former = config.members.get(member.id)
        if member.participant and (former is None or not former.participant):
            reason = "participants announce themselves once their node has joined the cluster: virtuallog node add"
            raise InvalidConfigError(f"server.{member.id}: {reason}")
    if not any(member.participant for member in members.values()):
        raise InvalidConfigError("no participant would be left")


def _next(config: QuorumConfig, members: Mapping[int, Member]) -> QuorumConfig:
    return QuorumConfig(members, config.version + 1)


def _parts(text: str) -> Sequence[str]:
    return [
        part.strip() for part in re.split(r"[,\n]", text) if part.strip() and not part.strip().startswith("version=")
    ]


def _member(line: str) -> Member:
    found = _MEMBER.fullmatch(line)
    if found is None:
        raise InvalidConfigError(f"{line!r} is not server.N=host:port:port[:role];[host:]port")
    return Member(int(found["id"]), line, participant=found["role"] != "observer")


def _id(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise InvalidConfigError(f"{text!r} is not the number of a server")
    return int(text)


def _version(key: str, value: str) -> int:
    if key != "version" or not value or value.startswith("-"):
        raise ValueError(key)
    return int(value, 16)


# FOLDED from virtuallog_server.zookeeper.reconfiguration: `reconfig` as a command of the tree, and how a server puts itself on the list.                                    Pure.
#
# The list is a znode like any other (`quorum_config`), and a change of it is a write that expects the version that it was computed from.
# So two changes at once cannot undo each other: one of them is told BADVERSION. Who may change it is what the znode's ACL says: nobody but
# the super user, unless somebody with that right has changed the ACL.


def reconfigured(data: bytes | None, stat: Stat, asked: QuorumChange) -> SetData | Error:
    """What a `reconfig` request comes to: a command to submit on behalf of the client, or the error to answer.

    Args:
        data: of /zookeeper/config as it is here.
        stat: the same.
        asked: by the client.
    """
    try:
        changed = change(_parsed(data), asked)
    except StaleConfigError:
        return Error.BAD_VERSION
    except InvalidConfigError:
        return Error.BAD_ARGUMENTS
    return _command(changed, stat)


def announced(data: bytes | None, stat: Stat, *, number: int, listen: str, client: str) -> SetData | None:
    """The command that puts a server on the list; None: it is there.

    Args:
        data: of /zookeeper/config.
        stat: the same.
        number: of the node.
        listen: where it listens to others.
        client: where it serves clients.
    """
    changed = announce(_parsed(data), number, listen, client)
    return None if changed is None else _command(changed, stat)


def _parsed(data: bytes | None) -> QuorumConfig:
    try:
        return parse((data or b"").decode())
    except (InvalidConfigError, UnicodeDecodeError):
        # Somebody with the right to has written something else there. The servers that live will announce themselves again.
        return QuorumConfig({}, 0)


def _command(config: QuorumConfig, stat: Stat) -> SetData:
    return SetData(CONFIG, config.render().encode(), stat.version)

"""/zookeeper/config: the list of servers for clients, and its changes by `reconfig`.

    server.1=127.0.0.1:7001:0:participant;127.0.0.1:2181
    server.2=...
    version=5

The second port is that of elections in ZooKeeper. No server of the database is elected, so ours list port 0: ZooKeeper's own parser, which
Curator has, refuses a whole list with a line whose two ports are equal, and dials neither.

ZooKeeper keeps its own quorum here. A virtual log keeps its quorum elsewhere: the chain names the nodes that order and store
entries, the MetaStore decides about the chain, and no server of the database votes on anything. So this znode is only what clients
need: a list of addresses. Each server adds its own line when it begins to serve (`announce`), and one that is gone is taken off
with `reconfig -remove N`.

    reconfig                        here
    joining an observer             the line is added: in ZooKeeper, too, this starts no process
    joining a participant           only one that is listed already (its addresses change): to take part in the log, a
                                    node joins the cluster, `virtuallog node add`, and then announces itself
    leaving                         the line is removed; a server that is alive announces itself again when it starts
    a whole new list (newMembers)   likewise: no new participants, at least one is left
    a list that ZooKeeper's parser refuses: ports that are equal or too large, observers beside one participant   refused

The line `version` is a counter, in hex as ZooKeeper's is, +1 with each change: `reconfig -v` compares it.

The list is a znode like any other, and a change of it is a write that expects the version that it was computed from. So two changes
at once cannot undo each other: one of them gets BADVERSION. The znode's ACL says who may change it: only the super user, unless a
client with that right has changed the ACL.
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
"""Most bytes of the list, some 600 servers, and of a request to change it."""
PORT_MAX: Final = 65_535
"""Highest port."""
_HOST: Final = r"(?:[^:;\s=,]+|\[[0-9a-fA-F:]+\])"
_MEMBER: Final = re.compile(
    rf"server\.(?P<id>\d{{1,9}})={_HOST}:(?P<port>\d{{1,5}}):(?P<election>\d{{1,5}})"
    r"(?::(?P<role>participant|observer))?(?:;(?P<client>\S+))?"
)
_CLIENT: Final = re.compile(rf"(?:{_HOST}:)?(?P<port>\d{{1,5}})")


class InvalidConfigError(Exception):
    """The request cannot be read, or is impossible: BADARGUMENTS."""


class StaleConfigError(Exception):
    """The request was based on another version: BADVERSION."""


@attrs.frozen
class Member:
    """One server."""

    id: int
    line: str
    """The line as it was given."""
    participant: bool


@attrs.frozen
class QuorumConfig:
    """The content of the znode."""

    members: Mapping[int, Member]
    version: int

    def render(self) -> str:
        """The text of the znode. No newline at the end: clients expect `version` in the last line."""
        lines = [self.members[number].line for number in sorted(self.members)]
        return "\n".join([*lines, f"version={self.version:x}"])


@attrs.frozen
class QuorumChange:
    """A client's `reconfig`. None for each part that it does not ask for."""

    joining: str | None
    leaving: str | None
    new_members: str | None
    from_version: int = ANY_CONFIG


def parse(text: str) -> QuorumConfig:
    """Parse the content of the znode.

    Raises:
        InvalidConfigError: it has another format.
    """
    *lines, last = text.split("\n") if text else ["version=0"]
    key, _, version = last.partition("=")
    try:
        return QuorumConfig({member.id: member for member in map(_member, lines)}, _version(key, version))
    except ValueError as error:
        raise InvalidConfigError(f"no version: {last!r}") from error


def announce(config: QuorumConfig, number: int, address: str, client: str) -> QuorumConfig | None:
    """The list with the line of a server that begins to serve. None if it is there already.

    Args:
        config: the present list.
        number: of its node.
        address: of its node for other nodes, host:port.
        client: address for clients, host:port.
    """
    line = f"server.{number}={address}:0:participant;{client}"
    if number in config.members and config.members[number].line == line:
        return None
    return _next(config, {**config.members, number: Member(number, line, participant=True)})


def change(config: QuorumConfig, asked: QuorumChange) -> QuorumConfig:
    """The list after a `reconfig`.

    Raises:
        StaleConfigError: it is based on another version. Checked first, as in ZooKeeper.
        InvalidConfigError: it is impossible.
    """
    if asked.from_version not in {ANY_CONFIG, config.version}:
        raise StaleConfigError(f"version {config.version:x}, not {asked.from_version:x}")
    # Any client may ask: its right is checked where the command is applied.
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
        # Lines of former versions stay as they are until their servers start again.
        if former is None or former.line != member.line:
            _check_ports(member.line)
    participants = sum(member.participant for member in members.values())
    if not participants:
        raise InvalidConfigError("no participant would be left")
    if participants == 1 < len(members):
        raise InvalidConfigError("ZooKeeper's clients refuse a list of observers beside one participant")


def _check_ports(line: str) -> None:
    found = _match(line)
    ports = [found["port"], found["election"]]
    if found["client"] is not None:
        client = _CLIENT.fullmatch(found["client"])
        if client is None:
            raise InvalidConfigError(f"{line!r}: {found['client']!r} is not [host:]port")
        ports.append(client["port"])
    if max(map(int, ports)) > PORT_MAX:
        raise InvalidConfigError(f"{line!r}: a port is at most {PORT_MAX}")
    if int(found["port"]) == int(found["election"]):
        raise InvalidConfigError(f"{line!r}: the two ports must differ")


def _next(config: QuorumConfig, members: Mapping[int, Member]) -> QuorumConfig:
    return QuorumConfig(members, config.version + 1)


def _parts(text: str) -> Sequence[str]:
    return [
        part.strip() for part in re.split(r"[,\n]", text) if part.strip() and not part.strip().startswith("version=")
    ]


def _member(line: str) -> Member:
    found = _match(line)
    return Member(int(found["id"]), line, participant=found["role"] != "observer")


def _match(line: str) -> re.Match[str]:
    found = _MEMBER.fullmatch(line)
    if found is None:
        raise InvalidConfigError(f"{line!r} is not server.N=host:port:port[:role];[host:]port")
    return found


def _id(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise InvalidConfigError(f"{text!r} is not the number of a server")
    return int(text)


def _version(key: str, value: str) -> int:
    if key != "version" or not value or value.startswith("-"):
        raise ValueError(key)
    return int(value, 16)


def reconfigured(data: bytes | None, stat: Stat, asked: QuorumChange) -> SetData | Error:
    """The command to submit for a `reconfig` request, or the error to answer.

    Args:
        data: of /zookeeper/config, as applied here.
        stat: its Stat.
        asked: by the client.
    """
    try:
        changed = change(_parsed(data), asked)
    except StaleConfigError:
        return Error.BAD_VERSION
    except InvalidConfigError:
        return Error.BAD_ARGUMENTS
    return _command(changed, stat)


def announced(data: bytes | None, stat: Stat, *, number: int, address: str, client: str) -> SetData | None:
    """The command that puts a server on the list. None if it is there.

    Args:
        data: of /zookeeper/config.
        stat: its Stat.
        number: of the node.
        address: its address for other nodes.
        client: its address for clients.
    """
    changed = announce(_parsed(data), number, address, client)
    return None if changed is None else _command(changed, stat)


def _parsed(data: bytes | None) -> QuorumConfig:
    try:
        return parse((data or b"").decode())
    except (InvalidConfigError, UnicodeDecodeError):
        # A client with the right to has written other content there. The living servers announce themselves again.
        return QuorumConfig({}, 0)


def _command(config: QuorumConfig, stat: Stat) -> SetData:
    return SetData(CONFIG, config.render().encode(), stat.version)

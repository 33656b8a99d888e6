"""`reconfig` as a command of the tree, and how a server puts itself on the list.                                    Pure.

The list is a znode like any other (`quorum_config`), and a change of it is a write that expects the version that it was computed from.
So two changes at once cannot undo each other: one of them is told BADVERSION. Who may change it is what the znode's ACL says: nobody but
the super user, unless somebody with that right has changed the ACL.
"""

from __future__ import annotations

from virtuallog_database.kv.commands import SetData
from virtuallog_database.kv.paths import CONFIG
from virtuallog_database.kv.results import Error, Stat
from virtuallog_server.zookeeper.quorum_config import (
    Change,
    InvalidConfigError,
    QuorumConfig,
    StaleConfigError,
    announce,
    change,
    parse,
)


def reconfigured(data: bytes | None, stat: Stat, asked: Change) -> SetData | Error:
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

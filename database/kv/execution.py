"""What the operations of one command share while they are carried out: the transaction, who asks, and what has changed. Pure."""

from __future__ import annotations

from typing import Final

import attrs

from database.kv import keys, paths
from database.kv.acl import READ, settled
from database.kv.acl_codec import encode_acl
from database.kv.commands import OPEN_ACL, Acl, Origin
from database.kv.records import Kind, Meta, Session, Znode, decode_meta, decode_session, decode_znode
from database.kv.results import Change, ChangeKind, Error, RefusedError, Rights
from database.ports import Reading
from database.transaction import Savepoint, Transaction

RIGHTS_BYTES_MAX: Final = 1 << 20
"""Of all ACLs of a command, as they are stored. As much as ZooKeeper's clients can spell out in a request; `auth` is short, and
what it stands for may be long."""
_READ_ONLY_ACL: Final = (Acl(READ, "world", "anyone"),)


def find_znode(reading: Reading, path: str) -> Znode | None:
    blob = reading.get(keys.znode(path))
    return None if blob is None else decode_znode(blob)


def find_session(reading: Reading, session: int) -> Session | None:
    blob = reading.get(keys.session(session))
    return None if blob is None else decode_session(blob)


@attrs.define(eq=False)
class Execution:
    """One command on its way. `meta` is written once, at the end, by whoever made this."""

    transaction: Transaction
    meta: Meta
    origin: Origin
    time_ms: int
    zxid: int
    changes: list[Change] = attrs.field(factory=list)
    rights: list[Rights] = attrs.field(factory=list)
    """For each of `changes`."""
    touched: list[int] = attrs.field(factory=list)
    """Sessions that were heard of."""
    ended: list[int] = attrs.field(factory=list)
    """Sessions that are over."""
    _known: dict[tuple[Acl, ...], tuple[Acl, ...]] = attrs.field(factory=dict, init=False)
    """ACLs in `rights`. A multi may meet one long ACL ten thousand times, decoded anew each time."""
    _rights_bytes: int = 0
    """What has been settled so far."""

    def settle(self, asked: tuple[Acl, ...]) -> tuple[Acl, ...]:
        """An ACL as it is stored. Raises RefusedError: INVALID_ACL, see `acl.settled`, or too many bytes."""
        rights = settled(asked, self.origin.identities)
        if rights is not OPEN_ACL:
            self._rights_bytes += len(encode_acl(rights))
            if self._rights_bytes > RIGHTS_BYTES_MAX:
                raise RefusedError(Error.INVALID_ACL)
        return rights

    def znode(self, path: str) -> Znode:
        """Raises RefusedError: NO_NODE."""
        found = find_znode(self.transaction, path)
        if found is None:
            raise RefusedError(Error.NO_NODE)
        return found

    def put(self, path: str, znode: Znode) -> None:
        self.transaction.put(keys.znode(path), znode.encode())

    def changed(self, kind: ChangeKind, path: str, acl: tuple[Acl, ...], parent_acl: tuple[Acl, ...]) -> None:
        """Note a change for watches. The ACLs are those at this change: see `Rights`."""
        known = self._known
        if acl is not OPEN_ACL:
            acl = known.setdefault(acl, acl)
        if parent_acl is not OPEN_ACL:
            parent_acl = known.setdefault(parent_acl, parent_acl)
        self.changes.append((kind, path))
        self.rights.append((acl, parent_acl))

    def savepoint(self) -> tuple[Savepoint, Meta, int]:
        """For `rollback`."""
        return self.transaction.savepoint(), attrs.evolve(self.meta), len(self.changes)

    def rollback(self, savepoint: tuple[Savepoint, Meta, int]) -> None:
        """As if nothing had been done since."""
        mark, self.meta, changes = savepoint
        self.transaction.rollback(mark)
        del self.changes[changes:], self.rights[changes:]


def load_meta(transaction: Transaction) -> Meta:
    """The counters. The first command of all finds an empty store, and puts the first znodes there."""
    if (known := transaction.take_parsed(keys.META)) is not None:
        return known  # type: ignore[no-any-return]  # `store_meta` is the only one to put it there
    blob = transaction.get(keys.META)
    if blob is not None:
        return decode_meta(blob)
    for key, value in FOUNDING.items():
        transaction.put(key, value)
    return decode_meta(FOUNDING[keys.META])


def store_meta(transaction: Transaction, meta: Meta) -> None:
    """The next command of the group goes on with it."""
    transaction.put_parsed(keys.META, meta.encode(), meta)


def _founding() -> dict[bytes, bytes]:
    """A tree in which nothing has happened yet. As in ZooKeeper, creating these counts for nothing."""
    everything = (paths.ROOT, *paths.SYSTEM_PATHS)
    records = {keys.META: Meta(znodes=len(everything)).encode()}
    for path in everything:
        below = [each for each in everything if each != paths.ROOT and paths.parent_of(each) == path]
        is_config = path == paths.CONFIG
        acl, aversion = (_READ_ONLY_ACL, -1) if is_config else (OPEN_ACL, 0)
        znode = Znode(Kind.PERSISTENT, 0, 0, 0, 0, 0, aversion=aversion, children=len(below), acl=acl)
        records[keys.znode(path)] = znode.encode()
        records |= {keys.child(path, paths.name_of(each)): b"" for each in below}
    return records


FOUNDING: Final = _founding()
"""The records of a tree to which no command has been applied."""

"""Execution of one command: the state that its operations share, such as the transaction, the
origin and the changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.engines.core.enabled_engines import BOUNDS, is_enabled, key_of
from virtuallog_database.ports import RecordReader
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import acl, bounds, commands, keys, paths
from virtuallog_database.tree.acl_codec import decode_acl, encode_acl
from virtuallog_database.tree.bounds import LOOK, WORK_FREE
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Command
from virtuallog_database.tree.records import (
    ACL_APART,
    APART_BYTES,
    DATA_APART,
    Meta,
    SeparateRecord,
    SessionRecord,
    Znode,
    ZnodeKind,
    data_bytes_of,
    decode_meta,
    decode_session,
    decode_znode,
)
from virtuallog_database.tree.results import Change, ChangeKind, Error, RefusedError, Rights, StoredAcl

RIGHTS_BYTES_MAX: Final = 1 << 20
"""Most bytes of all ACLs of a command, as they are stored. As much as ZooKeeper's clients can spell
out in a request; `auth` is short, and its replacement may be long."""
_BOUNDED: Final = frozenset({
    commands.Create, commands.Delete, commands.SetData, commands.SetAcl, commands.Check, commands.Multi
})  # fmt: skip
"""Operations that the bounds apply to: those of clients. Ending a session is never refused, however
many ephemerals it has: they were paid for when they were created."""
_BOUNDS_SWITCH: Final = key_of(BOUNDS)
_READ_ONLY_ACL: Final = (Acl(acl.READ, "world", "anyone"),)


def find_znode(reading: RecordReader, path: str) -> Znode | None:
    blob = reading.get(keys.znode(path))
    return None if blob is None else decode_znode(blob)


def find_acl(reading: RecordReader, path: str, znode: Znode) -> tuple[Acl, ...]:
    """ACL of this znode, from its own record or from a separate one."""
    return decode_acl(_acl_record(reading, path)) if isinstance(znode.acl, SeparateRecord) else znode.acl


def _acl_record(reading: RecordReader, path: str) -> bytes:
    blob = reading.get(keys.acl(path))
    if blob is None:
        raise CorruptionError(f"the ACL of {path} is gone")
    return blob


def find_data(reading: RecordReader, path: str, znode: Znode) -> bytes | None:
    """Data of this znode, from its own record or from a separate one."""
    if not isinstance(znode.data, SeparateRecord):
        return znode.data
    blob = reading.get(keys.data(path))
    if blob is None:
        raise CorruptionError(f"the data of {path} are gone")
    return blob


def find_session(reading: RecordReader, session: int) -> SessionRecord | None:
    blob = reading.get(keys.session(session))
    return None if blob is None else decode_session(blob)


class QuotaSearch(NamedTuple):
    """The limited paths that a znode is in, and the work to find them."""

    found: Sequence[str]
    """Limited paths, the longest one last."""
    looked: Sequence[str]
    """Paths of znodes that were looked at."""
    work: int
    """Work of the search; see `bounds`."""


@attrs.define(eq=False)
class _Seldom:
    """Values that a command has read and need not read again."""

    counted: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    """Znodes and bytes of data of a path and below, where this was counted, as of now."""
    apart: dict[str, tuple[Acl, ...]] = attrs.field(factory=dict)
    """Separate ACLs that were read and parsed."""
    records: dict[str, bytes] = attrs.field(factory=dict)
    """Separate ACLs that were read and not parsed."""
    allowed: dict[tuple[str, int], bool] = attrs.field(factory=dict)
    """Results of permission checks for the origin, by ACL and permission."""
    limited: dict[str, QuotaSearch] = attrs.field(factory=dict)
    """Limits for the children of a path, as the store has them."""
    texts: dict[str, tuple[bytes, int]] = attrs.field(factory=dict)
    """Data of znodes as in the store, and the work of reading them."""


class Execution:
    """One command in execution. It keeps its changes of znodes here, each znode once, until
    `finish` puts them into the transaction. So a refused command is forgotten as a whole, and a
    multi decodes and encodes a parent once. `meta` is stored by `finish` of `apply.py`.

    A plain class: one is made for each command at each replica, and what few commands need costs
    the others nothing.
    """

    recounted: int = 0
    """Znodes that new quotas have counted, long records several times. Stays if the command is
    rolled back."""
    _work: int = 0
    """Work so far; see `bounds`."""
    _seldom: _Seldom | None = None
    """Values that few commands need. None until one is needed."""
    _rights_bytes: int = 0
    """Bytes of the ACLs that were settled so far."""

    def __init__(self, transaction: StoreTransaction, meta: Meta, command: Command) -> None:
        self.transaction = transaction
        self.meta = meta
        """Counters of the tree. Change them only through `counters`."""
        self.origin = command.origin
        self.time_ms = command.time_ms
        self.zxid = meta.zxid + 1
        self.changes: list[Change] = []
        self.rights: list[Rights] = []
        """ACLs for each of `changes`."""
        self.touched: list[int] = []
        """Sessions that were heard of."""
        self.ended: list[int] = []
        """Sessions that are over."""
        self._command = command
        self._meta = meta
        """Counters as they were before."""
        self._znodes: dict[str, Znode | None] = {}
        """Changed znodes by path; None if deleted."""
        self._indexes: dict[bytes, bytes | None] = {}
        """Other changed keys; None if deleted."""

    # -- looking --------------------------------------------------------------------------------------------------------

    def find(self, path: str) -> Znode | None:
        """The znode as this command has left it; None if there is none. It may be changed, if `put`
        is called then.

        Raises:
            RefusedError: BAD_ARGUMENTS: the command exceeds its allowance.
        """
        if path in self._znodes:
            return self._znodes[path]
        key = keys.znode(path)
        blob = self.transaction.get(key)
        if blob is None:
            self.spend(LOOK)
            return None
        self._work = work = self._work + LOOK + len(blob)
        if work > WORK_FREE:
            self.spend(0)
        znode = decode_znode(blob)
        znode.key = key
        if znode.acl is not OPEN_ACL and len(blob) > 3 * APART_BYTES:  # of the former version
            self.spend(bounds.ACL_LOOKS * (len(blob) - len(znode.data or b"")))
        return znode

    def znode(self, path: str) -> Znode:
        """As `find`. Raises RefusedError: NO_NODE, too."""
        found = self.find(path)
        if found is None:
            raise RefusedError(Error.NO_NODE)
        return found

    def exists(self, path: str) -> bool:
        """True if there is such a znode."""
        if path in self._znodes:
            return self._znodes[path] is not None
        blob = self.transaction.get(keys.znode(path))
        self.spend(LOOK if blob is None else LOOK + len(blob))
        return blob is not None

    def limited(self, parent: str) -> QuotaSearch | None:
        """Cached search for the limits of this path's children. None if the command has changed
        what it found. Costs the same work as another search."""
        known = None if self._seldom is None else self._seldom.limited.get(parent)
        if known is None or not self._znodes.keys().isdisjoint(known.looked):
            return None
        self.spend(known.work)
        return known

    def keep_limited(self, parent: str, limited: QuotaSearch) -> None:
        """Cache a search for the next operation's `limited`, if it has met nothing that this
        command has changed."""
        if self._znodes.keys().isdisjoint(limited.looked):
            self._known.limited[parent] = limited

    def known_text(self, path: str) -> bytes | None:
        """Cached data of this znode. None if the command has changed it. Costs the same work as
        another look."""
        if self._seldom is None or path in self._znodes or (known := self._seldom.texts.get(path)) is None:
            return None
        self.spend(known[1])
        return known[0]

    def keep_text(self, path: str, text: bytes, work: int) -> None:
        """Cache data for the next operation's `known_text`, if they are in the store like that."""
        if path not in self._znodes:
            self._known.texts[path] = text, work

    @property
    def work(self) -> int:
        """Work so far: see `bounds`."""
        return self._work

    def data(self, path: str, znode: Znode) -> bytes | None:
        """Data of this znode."""
        if isinstance(znode.data, SeparateRecord):
            self.spend(LOOK + len(znode.data))
        return find_data(self.transaction, path, znode)

    def acl_of(self, path: str, znode: Znode) -> tuple[Acl, ...]:
        """ACL of this znode. A separate one is read once in a command."""
        rights = znode.acl
        if not isinstance(rights, SeparateRecord):
            return rights
        apart = self._known.apart
        if path not in apart:
            self.spend(LOOK + bounds.ACL_LOOKS * len(rights))
            apart[path] = find_acl(self.transaction, path, znode)
        return apart[path]

    def stored_acl_of(self, path: str, znode: Znode) -> StoredAcl:
        """ACL of this znode for watches, perhaps unparsed: they rarely need to know the content of
        a long one."""
        rights = znode.acl
        if not isinstance(rights, SeparateRecord):
            return rights
        known = self._known
        if path in known.apart:
            return known.apart[path]
        if path not in known.records:
            self.spend(LOOK + bounds.ACL_LOOKS * len(rights))
            known.records[path] = _acl_record(self.transaction, path)
        return known.records[path]

    @property
    def _known(self) -> _Seldom:
        if self._seldom is None:
            self._seldom = _Seldom()
        return self._seldom

    def check(self, path: str, znode: Znode, permission: int) -> tuple[Acl, ...]:
        """ACL of this znode, after checking that it gives the origin this permission. Raises
        RefusedError: NO_AUTH."""
        if znode.acl is OPEN_ACL:
            return OPEN_ACL
        rights = self.acl_of(path, znode)
        if not isinstance(znode.acl, SeparateRecord):
            acl.check(rights, permission, self.origin.identities)
            return rights
        asked, allowed = (path, permission), self._known.allowed
        if asked not in allowed:
            allowed[asked] = acl.allows(rights, permission, self.origin.identities)
        if not allowed[asked]:
            raise RefusedError(Error.NO_AUTH)
        return rights

    def settle(self, asked: tuple[Acl, ...]) -> tuple[Acl, ...]:
        """An ACL as it is stored. Raises RefusedError: INVALID_ACL, see `acl.settled`, or too many
        bytes."""
        rights = acl.settled(asked, self.origin.identities)
        if rights is not OPEN_ACL:
            size = len(encode_acl(rights))
            self._rights_bytes += size
            if self._rights_bytes > RIGHTS_BYTES_MAX or (self.meta.is_bounded and size > bounds.ACL_BYTES_MAX):
                raise RefusedError(Error.INVALID_ACL)
        return rights

    def count(self, path: str, znodes_max: int) -> tuple[int, int]:
        """Znodes and bytes of data of this path and below. Looks at each of them, once in a
        command.

        Raises:
            RefusedError: BAD_ARGUMENTS: there are more than `znodes_max`.
        """
        counted = self._known.counted
        if path not in counted:
            counted[path] = self._count(path, znodes_max)
        return counted[path]

    def _count(self, path: str, znodes_max: int) -> tuple[int, int]:
        start, stop = span = keys.znodes_below(path)
        changed = {keys.znode(each): znode for each, znode in self._znodes.items()}
        own = self.find(path)
        sizes = [] if own is None else [len(own.data or b"")]
        sizes += [len(each.data or b"") for key, each in changed.items() if each is not None and start <= key < stop]
        count, size = len(sizes), sum(sizes)
        self.recounted += 1 + count
        for key, blob in keys.scan_all(self.transaction, span, keys.ZNODES_COUNT):
            self.recounted += 1 + len(blob) // bounds.RECOUNT_BYTES
            if self.recounted > znodes_max:
                raise RefusedError(Error.BAD_ARGUMENTS)
            if key not in changed:
                count, size = count + 1, size + data_bytes_of(blob)
        return count, size

    def spend(self, work: int) -> None:
        """Add work. Raises RefusedError: BAD_ARGUMENTS: the command exceeds its allowance."""
        self._work += work
        if self._work <= WORK_FREE or not self.meta.is_bounded or type(self._command.operation) not in _BOUNDED:
            return
        if self._work > bounds.allowance(self._command.size):
            raise RefusedError(Error.BAD_ARGUMENTS)

    # -- changing -------------------------------------------------------------------------------------------------------

    def put(self, path: str, znode: Znode) -> None:
        """Put a znode that was found, or a new one."""
        if not znode.key:
            znode.key = keys.znode(path)
        self._znodes[path] = znode

    def remove(self, path: str, znode: Znode) -> None:
        """Remove a znode that was found, with its separate records."""
        self._znodes[path] = None
        if znode.apart & ACL_APART:
            self._indexes[keys.acl(path)] = None
        if znode.apart & DATA_APART:
            self._indexes[keys.data(path)] = None

    def index(self, key: bytes, value: bytes | None) -> None:
        """Put a key that is not a znode's; remove it if None."""
        self._indexes[key] = value

    def changed(self, kind: ChangeKind, path: str, rights: StoredAcl, parent_rights: StoredAcl) -> None:
        """Note a change for watches. The ACLs are those at this change: see `Rights`."""
        self.changes.append((kind, path))
        self.rights.append((rights, parent_rights))

    def counters(self) -> Meta:
        """The counters, to be changed."""
        if self.meta is self._meta:
            self.meta = self._meta.copy()
        return self.meta

    def grew(self, path: str, size: int, znodes: int) -> None:
        """Count so many more bytes of data, and znodes, at this path."""
        if not size and not znodes:
            return
        meta = self.counters()
        meta.data_bytes += size
        meta.znodes += znodes
        if self._seldom is not None:
            counted = self._seldom.counted
            for above, (count, total) in counted.items():
                if path == above or path.startswith("/" if above == paths.ROOT else above + "/"):
                    counted[above] = count + znodes, total + size

    def finish(self) -> None:
        """Put all changes into the transaction."""
        transaction = self.transaction
        if self._indexes:
            transaction.change(self._indexes)
        for path, znode in self._znodes.items():
            if znode is None:
                transaction.delete(keys.znode(path))
            elif znode.apart or (len(blob := znode.encode()) > APART_BYTES and self.meta.is_bounded):
                self._put_apart(path, znode)
            else:
                transaction.put(znode.key, blob)

    def _put_apart(self, path: str, znode: Znode) -> None:
        head, rights, data = znode.encode_apart()
        self.transaction.put(znode.key, head)
        for key, part, is_there in (
            (keys.acl(path), rights, znode.apart & ACL_APART),
            (keys.data(path), data, znode.apart & DATA_APART),
        ):
            if isinstance(part, bytes):
                self.transaction.put(key, part)
            elif part is None and is_there:
                self.transaction.delete(key)

    def take_back(self) -> None:
        """Roll back to the state of the transaction."""
        if self._znodes or self._indexes:
            self._znodes, self._indexes, self._seldom = {}, {}, None
        self.meta = self._meta
        self.changes.clear()
        self.rights.clear()


def load_meta(transaction: StoreTransaction) -> Meta:
    """Load the counters. The first command of all finds an empty store, and puts the first znodes
    there."""
    if (known := transaction.record(keys.META)) is not None:
        is_switched = not known.is_bounded and transaction.has_changed(_BOUNDS_SWITCH)
        return _with_switch(transaction, known) if is_switched else known
    if transaction.get(keys.META) is None:
        for key, value in FOUNDING.items():
            transaction.put(key, value)
    blob = transaction.get(keys.META)
    assert blob is not None
    return _with_switch(transaction, decode_meta(blob))


def _with_switch(transaction: StoreTransaction, meta: Meta) -> Meta:
    """Look for the switch, until it has been seen once."""
    if not meta.is_bounded and is_enabled(transaction, BOUNDS):
        meta.is_bounded = True
    return meta


def store_meta(transaction: StoreTransaction, meta: Meta) -> None:
    """Store the counters as a record, which the next command of the group continues with."""
    transaction.put_record(keys.META, meta)


def _founding() -> dict[bytes, bytes]:
    """Records of a tree without any command. As in ZooKeeper, creating these znodes counts for
    nothing."""
    everything = (paths.ROOT, *paths.SYSTEM_PATHS)
    records = {keys.META: Meta(znodes=len(everything)).encode()}
    for path in everything:
        below = [each for each in everything if each != paths.ROOT and paths.parent_of(each) == path]
        is_config = path == paths.CONFIG
        acl, aversion = (_READ_ONLY_ACL, -1) if is_config else (OPEN_ACL, 0)
        znode = Znode(ZnodeKind.PERSISTENT, 0, 0, 0, 0, 0, aversion=aversion, children=len(below), acl=acl)
        records[keys.znode(path)] = znode.encode()
        records |= {keys.child(path, paths.name_of(each)): b"" for each in below}
    return records


FOUNDING: Final = _founding()
"""The records of a tree to which no command has been applied."""

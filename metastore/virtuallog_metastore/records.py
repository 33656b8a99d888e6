"""Records of an acceptor's state on disk: two keys in a DurableMap store.

    decision    the newest decision this acceptor knows; absent before it knows any
    ballots     what it promised and accepted in the slot after that; absent if nothing

Record, little-endian: magic "VM" | crc32c u32 of all that follows | format u8 | a Cap'n Proto
message (metastore.capnp). The first six bytes stay so in every format, so that damage is never
taken for a later format.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeVar

import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.ports import DurableMap
from virtuallog.rpc.protocol.codec import Codec, derive
from virtuallog_metastore.core.acceptor import Acceptor, PersistBallots, PersistDecision, VoterCheck
from virtuallog_metastore.messages import Decision
from virtuallog_metastore.wire import SCHEMA

RecordT = TypeVar("RecordT")

DECISION: Final = b"decision"
BALLOTS: Final = b"ballots"

_MAGIC: Final = b"VM"
_FORMAT: Final = 1
_HEADER: Final = struct.Struct("<2sI")
_DECISION: Final[Codec[Decision]] = derive(Decision, SCHEMA.Decision)
_BALLOTS: Final[Codec[PersistBallots]] = derive(PersistBallots, SCHEMA.Ballots)


def changes(effect: PersistBallots | PersistDecision) -> Mapping[bytes, bytes | None]:
    """Return the one write that makes `effect` durable."""
    match effect:
        case PersistDecision():
            return {DECISION: _encode(_DECISION, effect.decision), BALLOTS: None}
        case PersistBallots():
            return {BALLOTS: _encode(_BALLOTS, effect)}


async def restore(store: DurableMap, seat: VoterCheck | None = None) -> Acceptor:
    """Restore the acceptor as it was at its last answer, or a step further.

    Args:
        store: store of its state.
        seat: tells if a value of the register lets it vote; None if any does.

    Raises:
        CorruptionError: a record is damaged, or the two do not fit together.
        MalformedError: a record of a later format.
        WrongRecipientError: the state of another cluster's register.
        StorageError: the store cannot be read.
    """
    stored_decision, stored_ballots = await store.get(DECISION), await store.get(BALLOTS)
    decision = None if stored_decision is None else _decode(_DECISION, DECISION, stored_decision)
    acceptor = Acceptor(decision) if seat is None else Acceptor(decision, seat=seat)
    if stored_ballots is not None:
        ballots = _decode(_BALLOTS, BALLOTS, stored_ballots)
        if ballots.slot != acceptor.known + 1:
            raise CorruptionError(f"MetaStore: ballots of slot {ballots.slot} beside the decision of {acceptor.known}")
        acceptor.promised, acceptor.accepted = ballots.promised, ballots.accepted
    return acceptor


def _encode(codec: Codec[RecordT], record: RecordT) -> bytes:
    body = bytes([_FORMAT]) + codec.encode(record)
    return _HEADER.pack(_MAGIC, crc32c.crc32c(body)) + body


def _decode(codec: Codec[RecordT], key: bytes, stored: bytes) -> RecordT:
    body = stored[_HEADER.size :]
    if not body or _HEADER.unpack_from(stored) != (_MAGIC, crc32c.crc32c(body)):
        raise CorruptionError(f"MetaStore: the record '{key.decode()}' is damaged")
    if body[0] != _FORMAT:
        raise MalformedError(f"MetaStore: a record of format {body[0]}; this program reads {_FORMAT}")
    return codec.decode_untrusted(body[1:])

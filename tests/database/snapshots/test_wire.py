"""The messages survive the wire, and classes and schema name the same fields."""

from __future__ import annotations

from typing import Any

import pytest

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.types import POSITION_MAX
from virtuallog.rpc.protocol.codec import derive
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog_database.ports import CheckpointFile
from virtuallog_database.snapshots import wire
from virtuallog_database.snapshots.messages import PIECE_BYTES_MAX, GetSnapshot, Piece, ReadPiece, SnapshotOffer


@pytest.mark.parametrize("method", wire.SNAPSHOTS.methods, ids=lambda method: method.name)
def test_every_method_pairs_with_its_structs(method: Any) -> None:
    """Each method has its structs, and is for admins: a request for a snapshot holds the log."""
    schema = wire.SNAPSHOTS.schema.schema.methods[method.name]
    assert derive(method.request, schema.param_type).struct is not None
    assert derive(method.reply, schema.result_type).struct is not None
    assert wire.SNAPSHOTS.role_of(method) is Role.ADMIN


@pytest.mark.parametrize(
    "message",
    [
        GetSnapshot(cluster=b"c" * 16, replica="3-ab"),
        SnapshotOffer(position=0, files=()),
        SnapshotOffer(position=POSITION_MAX, files=(CheckpointFile("000001.sst", (1 << 64) - 1, (1 << 32) - 1),)),
        ReadPiece(cluster=b"", replica="", position=1, file="CURRENT", offset=(1 << 64) - 1, length=PIECE_BYTES_MAX),
        Piece(content=b"", checksum=0),
        Piece(content=b"x" * 1000, checksum=(1 << 32) - 1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_read_as_it_was_written(message: Any) -> None:
    """Extreme values included."""
    codec = derive(type(message), getattr(wire.SCHEMA, type(message).__name__))
    assert codec.decode_untrusted(codec.encode(message)) == message


def test_offers_and_pieces_fit_in_a_frame() -> None:
    """A store of a terabyte has 65,536 files of 16 MiB: sixteen times what is offered here."""
    files = tuple(CheckpointFile(f"{number:06d}.sst", 16 << 20, number) for number in range(1 << 12))
    offer = derive(SnapshotOffer, wire.SCHEMA.SnapshotOffer).encode(SnapshotOffer(position=1, files=files))
    assert 16 * len(offer) < FRAME_BYTES_MAX
    assert PIECE_BYTES_MAX < FRAME_BYTES_MAX

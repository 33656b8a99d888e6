"""Parsers of files, registers and messages: any bytes give a value, or one of our own errors.

Most damage would end at a checksum. So each form is damaged twice: as it is, and with its checksum made right again, as
an attacker would do it.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from crc32c import crc32c

from tests.loglets.native.core.log_server_bench import SEGMENT, batch_of, config_of, wave_of
from virtuallog.client.cluster_file import read_cluster_file
from virtuallog.contract import errors, register
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import genesis
from virtuallog.contract.errors import InvalidSettingError, VirtualLogError
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native import config
from virtuallog_loglets.native.core import durable_state, segment_index, wave
from virtuallog_loglets.native.core.read_assembly import assemble_untrusted
from virtuallog_loglets.native.core.wave_index import WaveIndex
from virtuallog_loglets.native.messages import NativeState, NativeWaves
from virtuallog_loglets.tombstones import VersionFloor
from virtuallog_loglets.wal import Address, WalRecord
from virtuallog_loglets.wal.core import index_format
from virtuallog_metastore.disaster_recovery import dump
from virtuallog_server.config.node_config import read_node_config
from virtuallog_server.storage import identity

ROUNDS = 1000


@attrs.frozen(kw_only=True)
class Form:
    """A sound specimen, its parser, and how to make its checksum right."""

    sound: bytes
    parse: Callable[[bytes], Any]
    mend: Callable[[bytes], bytes] = lambda damaged: damaged


def checksum_at(at: int) -> Callable[[bytes], bytes]:
    """The four bytes there are the checksum of all behind them."""

    def mend(damaged: bytes) -> bytes:
        body = damaged[at + 4 :]
        return damaged[:at] + struct.pack("<I", crc32c(body)) + body if len(damaged) >= at + 4 else damaged

    return mend


def checksum_behind(damaged: bytes) -> bytes:
    """The last four bytes are the checksum of all before."""
    return damaged[:-4] + struct.pack("<I", crc32c(damaged[:-4]))


def wave_index() -> WaveIndex:
    index = WaveIndex()
    index.add(wave_of(0, 2), Address(64))
    return index


REGISTER = Register(
    cluster=ClusterId(b"c" * 16),
    chain=genesis("native", config_of().encode(), 7),
    members=(NodeId(1), NodeId(2), NodeId(3)),
    nodes={NodeId(1): NodeEntry(store_id=b"s" * 16, addresses=("a:1",), roles=frozenset({"sequencer"}))},
)
MARKER = identity.IdentityRecord(node=NodeId(1), phase=identity.FormatPhase.FORMATTED, boot=3, store_id=b"s" * 16)
STATE = NativeState(local_tail=2, sealed=False, known_tail=0, trim=0)


def all_placed(blob: bytes) -> Any:
    return list(wave.parse_untrusted(blob).placed())


def all_read(blob: bytes) -> Any:
    return assemble_untrusted(SEGMENT, NativeWaves(waves=(blob,), state=STATE), 0, 10)


FORMS = {
    "batch": Form(sound=batch_of(3).blob, parse=lambda b: Batch.parse_untrusted(b).payloads, mend=checksum_at(4)),
    "wave": Form(sound=wave_of(0, 2).blob, parse=all_placed, mend=checksum_at(4)),
    "wave that was read": Form(sound=wave_of(0, 2).blob, parse=all_read, mend=checksum_at(4)),
    "register": Form(sound=REGISTER.encode(), parse=register.decode_untrusted),
    "exported register": Form(
        sound=dump.Dump(REGISTER, REGISTER.encode()).encode(), parse=dump.decode_untrusted, mend=checksum_behind
    ),
    "identity file": Form(sound=MARKER.encode(), parse=identity.decode_untrusted, mend=checksum_behind),
    "config of a native loglet": Form(sound=config_of().encode(), parse=config.decode_untrusted),
    "index of a segment": Form(
        sound=index_format.encode(1, (500, 3), b"content"),
        parse=lambda b: index_format.decode_untrusted(b, 1, (500, 3)),
        mend=checksum_at(12),
    ),
    "index of waves": Form(sound=segment_index.encode({SEGMENT: wave_index()}), parse=segment_index.decode_untrusted),
    "error": Form(
        sound=errors.encode(errors.TrimmedError(7)).encode(),
        parse=lambda b: errors.decode_untrusted(b.decode(errors="replace")),
    ),
}
_CHANGES: tuple[durable_state.Change, ...] = (
    wave_of(0, 2),
    durable_state.LogletTrimmed(SEGMENT, 1),
    durable_state.LogletSnapshot(SEGMENT, 2, 1, 0, False),
    VersionFloor(4),
)


def replay(kind: int) -> Callable[[bytes], Any]:
    return lambda payload: durable_state.DurableLogs().replay(Address(64), WalRecord(kind, payload))


for change in _CHANGES:
    record = durable_state.encode(change)
    mend = checksum_at(4) if isinstance(change, wave.Wave) else lambda damaged: damaged
    FORMS[f"record {type(change).__name__}"] = Form(sound=record.payload, parse=replay(record.kind), mend=mend)


def damage(chooser: random.Random, sound: bytes) -> bytes:
    damaged = bytearray(sound)
    for _ in range(chooser.choice((1, 1, 2, 6))):
        at = chooser.randrange(len(damaged) + 1)
        match chooser.randrange(5):
            case 0:
                damaged[at : at + 1] = bytes([chooser.choice((0, 1, 0x7F, 0x80, 0xFF, chooser.randrange(256)))])
            case 1:
                damaged[at : at + 8] = chooser.choice(
                    (bytes(8), b"\xff" * 8, b"\xff" * 7 + b"\x7f", chooser.randbytes(8))
                )
            case 2:
                damaged[at:at] = chooser.randbytes(chooser.randrange(1, 9))
            case 3:
                del damaged[at : at + chooser.randrange(1, 9)]
            case _:
                damaged[at:at] = damaged[:at] if chooser.random() < 0.1 else b"["
    return bytes(damaged) or b"?"


@pytest.mark.parametrize("name", FORMS)
def test_damaged_bytes_give_a_value_or_an_error_of_ours(name: str) -> None:
    """Nothing else comes out: no struct.error, no KjException, no MemoryError."""
    form, chooser, outcomes = FORMS[name], random.Random(name), Counter[bool]()
    form.parse(form.sound)
    form.parse(form.mend(form.sound))
    for _ in range(ROUNDS):
        damaged = damage(chooser, form.sound)
        for candidate in (damaged, form.mend(damaged)):
            try:
                form.parse(candidate)
            except VirtualLogError:
                outcomes[False] += 1
            else:
                outcomes[True] += 1

    assert outcomes.total() == 2 * ROUNDS


@pytest.mark.parametrize("text", [b"[" * 60_000, b'{"a":' * 10_000, b'{"servers": [' + b"9" * 5000 + b"]}"])
def test_config_that_is_deep_or_long(text: bytes) -> None:
    """JSON that no parser digests is malformed, too."""
    with pytest.raises(VirtualLogError):
        config.decode_untrusted(text)


SOUND_TOML = b"""id = 1
data = "d"
listen = "127.0.0.1:7001"
[[peer]]
id = 1
address = "127.0.0.1:7001"
"""


@pytest.mark.parametrize("read", [read_node_config, read_cluster_file])
def test_damaged_files_of_an_operator_are_refused_with_a_reason(read: Callable[[Path], Any], tmp_path: Path) -> None:
    """Any bytes: a config, or an error that names the file."""
    chooser, path = random.Random(1), tmp_path / "node.toml"
    texts = [damage(chooser, SOUND_TOML) for _ in range(100)]
    for text in texts:
        path.write_bytes(text)
        with suppress(InvalidSettingError):
            read(path)
    for text in (b"a = " + b"[" * 50_000, b"\xff\xfe", b"id = 1e999", b"id = " + b"9" * 10_000):
        path.write_bytes(text)
        with pytest.raises(InvalidSettingError, match=str(path)):
            read(path)

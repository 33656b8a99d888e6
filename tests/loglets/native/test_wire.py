"""Every message survives the wire, and classes and schema name the same fields."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loglets.native.core.log_server_bench import SEGMENT, batch_of, state_of, stored_of, wave_of
from virtuallog.rpc.protocol.codec import derive
from virtuallog_loglets.native import wire
from virtuallog_loglets.native.messages import (
    NativeAppend,
    NativeAppended,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeStore,
    NativeWaitTail,
    NativeWaves,
)

METHODS = [(interface, method) for interface in (wire.LOG_SERVER, wire.SEQUENCER) for method in interface.methods]


@pytest.mark.parametrize(("interface", "method"), METHODS, ids=lambda value: getattr(value, "name", ""))
def test_every_method_pairs_with_its_structs(interface: Any, method: Any) -> None:
    """A mistake shows here and not on the wire."""
    schema = interface.schema.schema.methods[method.name]

    assert derive(method.request, schema.param_type).struct is not None
    assert derive(method.reply, schema.result_type).struct is not None


@pytest.mark.parametrize(
    "message",
    [
        NativeStore(segment=SEGMENT, wave=wave_of(1).blob, known_tail=1),
        NativeRepair(segment=SEGMENT, waves=(b"a", b""), known_tail=(1 << 63) - 1),
        NativeRepair(segment=SEGMENT, waves=(b"a",), known_tail=0, rebuilds=True),
        NativeSeal(segment=SEGMENT, rebuilds=True, whole=True),
        NativeWaitTail(segment=SEGMENT, past=-1, known_tail=0),
        NativeReadWaves(segment=SEGMENT, start=0, stop=9, max_bytes=(1 << 32) - 1),
        NativeAppend(segment=SEGMENT, batch=batch_of().blob, opens=True),
        NativeAppend(segment=SEGMENT, batch=b"", opens=False, expected_tail=0),
        NativeAppended(first=1, known_tail=2),
        NativeWaves(waves=(b"1", b"2"), state=state_of(3, sealed=True, known_tail=2, trim=1)),
        stored_of(3, accepted=False, sealed=True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_read_as_it_was_written(message: Any) -> None:
    """Extreme values included."""
    codec = derive(type(message), getattr(wire.SCHEMA, type(message).__name__.removeprefix("Native")))

    assert codec.decode_untrusted(codec.encode(message)) == message

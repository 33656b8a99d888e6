"""Writer of messages of the RPC protocol. Every function returns the segments of one message, for
`Outbox.put`."""
# ruff: noqa: SLF001  # pycapnp's access by field object is named _get_by_field, _set_by_field, _init_by_field

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

import capnp

from virtuallog.rpc.protocol.codec import Codec
from virtuallog.rpc.protocol.messages import (
    BOOTSTRAP,
    CALL_INTERFACE,
    CALL_METHOD,
    CALL_NO_PIPELINING,
    CALL_PARAMS,
    CALL_QUESTION,
    CALL_TARGET,
    CAPABILITY,
    EXCEPTION,
    EXCEPTION_TYPES,
    FINISH,
    MESSAGE,
    MESSAGE_CALL,
    MESSAGE_RETURN,
    OP,
    PAYLOAD_CAPABILITIES,
    PAYLOAD_CONTENT,
    PROMISE,
    RETURN,
    RETURN_ANSWER,
    RETURN_NO_FINISH,
    RETURN_RESULTS,
    RPC,
    TARGET_IMPORT,
    TARGET_PROMISE,
    PromisedAnswer,
    Target,
)
from virtuallog.rpc.protocol.methods import BoundMethod
from virtuallog.rpc.protocol.node import NODE

Segments: TypeAlias = list[bytes]

_BUILDER: Final = capnp.lib.capnp._MallocMessageBuilder
_MESSAGE_SCHEMA: Final = RPC.Message.schema
_OPEN_RESULTS: Final = NODE.schema.schema.methods["open"].result_type


def bootstrap(question: int) -> Segments:
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    root._init_by_field(MESSAGE["bootstrap"])._set_by_field(BOOTSTRAP["questionId"], question)
    return _segments(root)


def call(question: int, target: Target, method: BoundMethod, request: Any) -> Segments:
    """Write a call of `method`. The caller promises not to pipeline on results without a capability."""
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    builder = root._init_by_field(MESSAGE_CALL)
    builder._set_by_field(CALL_QUESTION, question)
    builder._set_by_field(CALL_INTERFACE, method.interface_id)
    builder._set_by_field(CALL_METHOD, method.method_id)
    builder._set_by_field(CALL_NO_PIPELINING, method.results is not None)
    if isinstance(target, int):
        builder._get_by_field(CALL_TARGET)._set_by_field(TARGET_IMPORT, target)
    else:
        _fill_promise(builder._get_by_field(CALL_TARGET)._init_by_field(TARGET_PROMISE), target)
    _fill_payload(builder._get_by_field(CALL_PARAMS), method.params, request)
    segments: Segments = root.to_segments()
    return segments


def _fill_promise(builder: Any, promise: PromisedAnswer) -> None:
    builder._set_by_field(PROMISE["questionId"], promise.question)
    operations = builder._init_by_field(PROMISE["transform"], len(promise.path))
    for operation, pointer in zip(operations, promise.path, strict=True):
        operation._set_by_field(OP["getPointerField"], pointer)


def _fill_payload(payload: Any, codec: Codec[Any], message: Any) -> None:
    codec.fill(payload._get_by_field(PAYLOAD_CONTENT).as_struct(codec.struct), message)


def results(answer: int, codec: Codec[Any], reply: Any) -> Segments:
    """Write a return that needs no finish: it carries no capability, so the answer is forgotten as
    it is sent."""
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    builder = root._init_by_field(MESSAGE_RETURN)
    builder._set_by_field(RETURN_ANSWER, answer)
    builder._set_by_field(RETURN_NO_FINISH, True)
    _fill_payload(builder._init_by_field(RETURN_RESULTS), codec, reply)
    segments: Segments = root.to_segments()
    return segments


def node_results(answer: int, export: int, protocol: int | None) -> Segments:
    """Write a return of the capability `export`.

    With `protocol` None it is the capability as it is, for a bootstrap. Otherwise it is the results
    of Node.open, with the version of the protocol that is in force.
    """
    root, builder = _return(answer, finish_needed=True)
    payload = builder._init_by_field(RETURN_RESULTS)
    payload._init_by_field(PAYLOAD_CAPABILITIES, 1)[0]._set_by_field(CAPABILITY["senderHosted"], export)
    if protocol is not None:
        payload._get_by_field(PAYLOAD_CONTENT).as_struct(_OPEN_RESULTS).protocol = protocol
    (segment,) = root.to_segments()
    # Message -> Return -> Payload -> content, which for Node.open is a struct with the capability as its only pointer.
    return [_with_capability(segment, (0, 0, 0) if protocol is None else (0, 0, 0, 0))]


def exception(answer: int, reason: str, kind: str, *, finish_needed: bool) -> Segments:
    root, builder = _return(answer, finish_needed=finish_needed)
    _fill_exception(builder._init_by_field(RETURN["exception"]), reason, kind)
    return _segments(root)


def canceled(answer: int) -> Segments:
    root, builder = _return(answer, finish_needed=False)
    builder._set_by_field(RETURN["canceled"], None)
    return _segments(root)


def finish(question: int, *, release: bool) -> Segments:
    """Write a finish. The question's id is free once its return has come, too.

    Args:
        question: id of the question.
        release: True to drop the capabilities in the results.
    """
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    builder = root._init_by_field(MESSAGE["finish"])
    builder._set_by_field(FINISH["questionId"], question)
    builder._set_by_field(FINISH["releaseResultCaps"], release)
    builder._set_by_field(FINISH["requireEarlyCancellationWorkaround"], False)
    return _segments(root)


def abort(reason: str) -> Segments:
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    _fill_exception(root._init_by_field(MESSAGE["abort"]), reason, "failed")
    return _segments(root)


def unimplemented(received: Any) -> Segments:
    """Send a message back whole, as one that we do not understand."""
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    root._set_by_field(MESSAGE["unimplemented"], received)
    return _segments(root)


def _segments(root: Any) -> Segments:
    segments: Segments = root.to_segments()
    return segments


def _return(answer: int, *, finish_needed: bool) -> tuple[Any, Any]:
    root = _BUILDER().init_root(_MESSAGE_SCHEMA)
    builder = root._init_by_field(MESSAGE_RETURN)
    builder._set_by_field(RETURN_ANSWER, answer)
    builder._set_by_field(RETURN_NO_FINISH, not finish_needed)
    return root, builder


def _fill_exception(builder: Any, reason: str, kind: str) -> None:
    builder._set_by_field(EXCEPTION["reason"], reason)
    builder._set_by_field(EXCEPTION["type"], EXCEPTION_TYPES.index(kind))


def _with_capability(segment: bytes, path: tuple[int, ...]) -> bytes:
    """Return `segment` with the null pointer at the end of `path` made a pointer to capability 0 of
    the message.

    pycapnp writes capability pointers only for its own RPC system, which needs asyncio. A struct
    pointer is (kind 0, offset: 30 bits, data words: 16 bits, pointers: 16 bits); a capability
    pointer is 3 and its index. https://capnproto.org/encoding.html#structs
    """
    at = 0
    for pointer in path:
        head, data_words = struct.unpack_from("<iH", segment, at)
        assert head & 3 == 0
        at += 8 * (1 + (head >> 2) + data_words + pointer)
    assert segment[at : at + 8] == bytes(8)
    return segment[:at] + struct.pack("<II", 3, 0) + segment[at + 8 :]

"""Reader of messages of the RPC protocol.

Everything here is untrusted: any function may raise anything that pycapnp raises. Callers turn that
into MalformedError.
"""
# ruff: noqa: SLF001  # pycapnp's access by field object is named _get_by_field, _set_by_field, _init_by_field

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.errors import MalformedError
from virtuallog.rpc.protocol.codec import NESTING_MAX, Codec, traversal_words_max
from virtuallog.rpc.protocol.frames import Frame
from virtuallog.rpc.protocol.messages import (
    BOOTSTRAP,
    CALL_INTERFACE,
    CALL_METHOD,
    CALL_PARAMS,
    CALL_QUESTION,
    CALL_RESULTS_TO,
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
    RELEASE,
    RETURN,
    RETURN_ANSWER,
    RETURN_NO_FINISH,
    RPC,
    TARGET_IMPORT,
    TARGET_PROMISE,
    Call,
    PromisedAnswer,
    Return,
    Target,
)
from virtuallog.rpc.protocol.node import NODE

_OPEN_RESULTS: Final = NODE.schema.schema.methods["open"].result_type


def parse(frame: Frame) -> Any:
    """Return the message in a frame."""
    size = len(frame[0]) if len(frame) == 1 else sum(map(len, frame))
    return RPC.Message.from_segments(frame, traversal_words_max(size), NESTING_MAX)


def kind_of(message: Any) -> str:
    """Return the name of the message's kind. Raises for kinds that rpc.capnp does not have."""
    kind: str = message._which_str()
    return kind


def call(message: Any) -> Call:
    body = message._get_by_field(MESSAGE_CALL)
    return Call(
        body._get_by_field(CALL_QUESTION),
        _read_target(body._get_by_field(CALL_TARGET)),
        (body._get_by_field(CALL_INTERFACE), body._get_by_field(CALL_METHOD)),
        body._get_by_field(CALL_PARAMS)._get_by_field(PAYLOAD_CONTENT),
        body._get_by_field(CALL_RESULTS_TO)._which_str() == "caller",
    )


def _read_target(target: Any) -> Target:
    if target._which_str() == "importedCap":
        imported: int = target._get_by_field(TARGET_IMPORT)
        return imported
    promise = target._get_by_field(TARGET_PROMISE)
    path = [
        operation._get_by_field(OP["getPointerField"])
        for operation in promise._get_by_field(PROMISE["transform"])
        if operation._which_str() == "getPointerField"
    ]
    return PromisedAnswer(promise._get_by_field(PROMISE["questionId"]), tuple(path))


def return_(message: Any) -> Return:
    value = message._get_by_field(MESSAGE_RETURN)
    kind = value._which_str()
    return Return(
        value._get_by_field(RETURN_ANSWER),
        kind,
        value._get_by_field(RETURN[kind]) if kind in {"results", "exception"} else None,
        not value._get_by_field(RETURN_NO_FINISH),
    )


def params(content: Any, codec: Codec[Any]) -> Any:
    """Return the message in an AnyPointer: the parameters of a call."""
    return codec.read_untrusted(content.as_struct(codec.struct))


def results(payload: Any, codec: Codec[Any]) -> Any:
    return params(payload._get_by_field(PAYLOAD_CONTENT), codec)


def protocol(payload: Any) -> int:
    """Return the version in the results of Node.open. A node of version 1 sends none, which reads
    as 1."""
    version: int = payload._get_by_field(PAYLOAD_CONTENT).as_struct(_OPEN_RESULTS).protocol
    return version


def hosted_capability(payload: Any) -> int:
    """Return the export id of the one capability in a payload. It is in its proper place, as it is
    the only one.

    Raises:
        MalformedError: there is none, or it lives elsewhere.
    """
    for descriptor in payload._get_by_field(PAYLOAD_CAPABILITIES):
        if (kind := descriptor._which_str()) in {"senderHosted", "senderPromise"}:
            export: int = descriptor._get_by_field(CAPABILITY[kind])
            return export
    raise MalformedError("a return without the capability it should carry")


def exception(value: Any) -> tuple[str, str]:
    """Return reason and type of an exception."""
    return value._get_by_field(EXCEPTION["reason"]), EXCEPTION_TYPES[value._get_by_field(EXCEPTION["type"]).raw]


def abort(message: Any) -> str:
    reason: str = message._get_by_field(MESSAGE["abort"])._get_by_field(EXCEPTION["reason"])
    return reason


def bootstrap(message: Any) -> int:
    question: int = message._get_by_field(MESSAGE["bootstrap"])._get_by_field(BOOTSTRAP["questionId"])
    return question


def finish(message: Any) -> int:
    question: int = message._get_by_field(MESSAGE["finish"])._get_by_field(FINISH["questionId"])
    return question


def release(message: Any) -> int:
    export: int = message._get_by_field(MESSAGE["release"])._get_by_field(RELEASE["id"])
    return export


def unimplemented(message: Any) -> int | None:
    """Return the question of our message that the other side does not understand; None if it asked
    none."""
    returned = message._get_by_field(MESSAGE["unimplemented"])
    kind = kind_of(returned)
    if kind == "call":
        question: int = returned._get_by_field(MESSAGE_CALL)._get_by_field(CALL_QUESTION)
        return question
    return bootstrap(returned) if kind == "bootstrap" else None

"""Messages of Cap'n Proto's RPC protocol (rpc.capnp, which ships with pycapnp), as far as we use them.

Only `message_writer.py` and `message_reader.py` use the fields here. Fields are objects that are
looked up once: access by name costs three times as much.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs

from virtuallog.contract.schema import load

RPC: Final = load("capnp", "rpc.capnp")


def _fields(struct_schema: Any) -> dict[str, Any]:
    schema = getattr(struct_schema, "schema", struct_schema)
    return {field.proto.name: field for field in schema.fields_list}


MESSAGE, CALL, RETURN = _fields(RPC.Message), _fields(RPC.Call), _fields(RPC.Return)
FINISH, BOOTSTRAP, RELEASE = _fields(RPC.Finish), _fields(RPC.Bootstrap), _fields(RPC.Release)
EXCEPTION, PAYLOAD, TARGET = _fields(RPC.Exception), _fields(RPC.Payload), _fields(RPC.MessageTarget)
CAPABILITY, PROMISE, OP = _fields(RPC.CapDescriptor), _fields(RPC.PromisedAnswer), _fields(RPC.PromisedAnswer.Op)

# Fields of a call and its return under names of their own: they are read and written on every call.
MESSAGE_CALL, MESSAGE_RETURN = MESSAGE["call"], MESSAGE["return"]
CALL_QUESTION, CALL_TARGET, CALL_PARAMS = CALL["questionId"], CALL["target"], CALL["params"]
CALL_INTERFACE, CALL_METHOD, CALL_RESULTS_TO = CALL["interfaceId"], CALL["methodId"], CALL["sendResultsTo"]
CALL_NO_PIPELINING: Final = CALL["noPromisePipelining"]
TARGET_IMPORT, TARGET_PROMISE = TARGET["importedCap"], TARGET["promisedAnswer"]
RETURN_ANSWER, RETURN_RESULTS, RETURN_NO_FINISH = RETURN["answerId"], RETURN["results"], RETURN["noFinishNeeded"]
PAYLOAD_CONTENT, PAYLOAD_CAPABILITIES = PAYLOAD["content"], PAYLOAD["capTable"]

EXCEPTION_TYPES: Final = ("failed", "overloaded", "disconnected", "unimplemented")


@attrs.frozen
class PromisedAnswer:
    """The future answer to a question, or a capability within it."""

    question: int
    path: tuple[int, ...]
    """Pointer fields to follow from the root of the results."""


Target: TypeAlias = int | PromisedAnswer
"""Target of a call: a capability that the receiver has exported, or one that it has promised."""


@attrs.define(eq=False)  # not frozen, as in `events.py`
class Call:
    """A received call. Its parameters are read once the method is known."""

    question: int
    target: Target
    number: tuple[int, int]
    """Interface id and method id."""
    params: Any
    """The parameters: an AnyPointer, for `message_reader.params`."""
    to_caller: bool
    """False if the results go elsewhere, which only Level 2 and above can do."""


@attrs.define(eq=False)
class Return:
    """A received return."""

    question: int
    kind: str
    """results, exception, canceled, or a kind of higher levels."""
    value: Any
    """A Payload, or an Exception, or nothing."""
    finish_needed: bool

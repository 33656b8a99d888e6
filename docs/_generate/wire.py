"""The page of the protocol between clients and nodes: its tables and numbers are those of the code."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

import attrs

from docs._generate.source import WRITTEN, cell, first_paragraph, table
from virtuallog.contract import batch
from virtuallog.contract.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, ENTRY_BYTES_MAX
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import WIRE_CLASSES, UnavailableError, encode
from virtuallog.contract.register import FORMAT_GUARDED
from virtuallog.contract.versions import SPOKEN
from virtuallog.exactly_once.session_table import BATCHES_MAX, SESSION_KEEP_MS
from virtuallog.rpc.admission import ServerLimits
from virtuallog.rpc.protocol.answers import KEPT_MAX
from virtuallog.rpc.protocol.error_codec import to_wire
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX, SEGMENTS_MAX
from virtuallog.rpc.protocol.node import NODE
from virtuallog.rpc.server import PENDING_BYTES_MAX, PENDING_CALLS_MAX
from virtuallog_loglets.native.core import wave
from virtuallog_server.cli.cluster.schema_job import interfaces

AGAIN: Final = "pause, look for a newer register, offer it again"
SUCCESSOR: Final = "wait for a register with a successor, then settle"
NEVER: Final = "give up: the call is wrong"
NOTHING: Final = "nothing was done"
UNKNOWN: Final = "unknown"
READS: Final = "no append fails so"
APPENDS: Final = {
    "BeyondTailError": (NEVER, READS),
    "ChainConflictError": (NEVER, READS),
    "CorruptionError": (SUCCESSOR, UNKNOWN),
    "DiskFullError": (AGAIN, NOTHING),
    "ForbiddenError": (NEVER, NOTHING),
    "InvalidSettingError": (NEVER, READS),
    "MalformedError": (NEVER, NOTHING),
    "OutOfOrderError": ("offer the batch before it first", NOTHING),
    "OverloadedError": (AGAIN, NOTHING),
    "ReconfigurationNeededError": (SUCCESSOR, UNKNOWN),
    "SealedError": (SUCCESSOR, "unknown; nothing was done if `refused`"),
    "StorageError": (SUCCESSOR, UNKNOWN),
    "TailMismatchError": (NEVER, NOTHING),
    "TooLargeError": (NEVER, NOTHING),
    "TrimmedError": (NEVER, READS),
    "UnavailableError": (AGAIN, UNKNOWN),
    "UnknownKindError": (NEVER, READS),
    "UnsupportedError": (NEVER, NOTHING),
    "UntrustedError": (AGAIN, NOTHING),
    "WrongRecipientError": (SUCCESSOR, NOTHING),
}
"""Error -> the next step of a client that appends, and what this one attempt has done. Each error of the wire has to be here."""

PAGE: Final = """# Wire protocol

For clients in other languages. Nodes speak stock [Cap'n Proto RPC](https://capnproto.org/rpc.html) over TCP, or over TLS 1.3: a
stock library is a client, and needs neither a preamble nor a codec of its own. `virtuallog schema --out DIR` writes the schemas;
[a client in C++](../howto/other-languages.md) uses all that is on this page. Ids and numbers in the schemas never change, and fields and
methods are only added ([formats](formats.md#how-to-extend)).

## Connection

1. Connect to the address of a node. Messages are framed as [streams](https://capnproto.org/encoding.html#serialization-over-a-stream), not packed.
2. Ask for the bootstrap object. It implements every interface of the node: cast it.
3. Call `Node.open` on it, with what is known of the node that is meant: `cluster`, `node`, `storeId`, all from the register, and `boot`. An empty
   field is not checked. `protocolFirst` and `protocolLast` are the versions that the client was written for; this node speaks {first} to {last}.
4. Call the node that `open` gives back. Its promise will do, so all of this leaves in one flight. If `open` fails, so do the calls on its promise,
   with its error, and none of them is executed.

`open` is a check and not a duty: calls on the bootstrap object are served as well. `Node.hello` tells who answers.

Of the protocol a node takes `bootstrap`, `call`, `return`, `finish`, `release`, `abort` and `unimplemented`; it answers any other message with
`unimplemented`, and calls on any other promise with an error. It calls no client back. Returns set `noFinishNeeded`, and a `finish` that comes
nevertheless does no harm. A deadline does not travel: a client that gives up drops its promise, and the node works on.

## TLS and roles

Without `[tls]` a node listens on loopback only, and each caller may call everything. With it the client needs a certificate with one URI,
`virtuallog://CLUSTER/client/NAME`, of the authority of the cluster; it verifies the chain of the node's certificate and finds
`virtuallog://CLUSTER/node/NUMBER` in it. Names of hosts are not checked ([certificates](../howto/secure.md#certificates)).
There is no STARTTLS: the first bytes are TLS. A call that takes a higher role than the caller has gets `ForbiddenError`.

Methods that the role `client` may call, each by the number in its interface. `Node` is open to any certificate:

{methods}
## Where the log is

`Control.getStatus` of any node has its newest `register`: a message of `register.capnp`, framed as a stream; empty before the cluster is founded.
A node may lag behind. So ask several, and keep the highest `version`. A client that must not miss a decided version asks a majority of `members`
by `Acceptor.ask`.

* `segments` cover the log without holes. Each has a `stop` but the last one, which gets one when the log is closed on purpose. Position = offset in the loglet - `base` + `start`.
* `config` belongs to the `kind`: of a native segment it is JSON, `Config` in `native.capnp`. The loglet on its servers is named by
  `loglet` of the config, or else by `version` and `attempt` of the segment.
* `nodes` has the addresses. `guarded` above 0: clients may not append ([why](../howto/secure.md#the-log-of-a-database)).
* A client stops at a `format` above {register}: it cannot know what else has changed.
* A client need not change the register: nodes replace what fails, and finish what others began, within about a second.

## Append

An entry travels in a batch of at most {batch_bytes} and {batch_count} entries; our own client refuses an entry above {entry_bytes}:

```text
{batch}
```

A session is 16 random bytes that are never used again. It counts its entries from 0, without holes: the sequence number of a batch is that of its
first entry.

`Sequencer.append` at the node `sequencer` of the config gives the offset of the first entry. All entries of the batch are then durable on a majority,
and so is everything before them. Exactly once takes five rules:

1. The first batch of a session in a segment has `opens`, and no second one is sent until it is acknowledged. Then {batches} may be in flight.
2. Without an answer the batch is *in doubt*. Offer the same bytes again, to the same segment: the sequencer remembers the place, for {keep}
   s after the last batch of the session. So give up after half of it.
3. A segment that has a `stop`, or is no longer the last one, takes nothing more below that stop. *Settle*: search for the batch, by session and
   sequence number, from the first entry that is not acknowledged up to the stop. Found: it is acknowledged there. Not found: it is offered to the last segment, and no longer in doubt.
4. Never offer a batch in doubt to another segment before that search, and never under another session or sequence number.
5. Where a part of the range has been trimmed, the outcome stays unknown.

## Read, and follow the tail

`LogServer.readWaves` gives the waves of one server, from the one with the offset `start` on. No wave proves nothing: ask another server. `state.trim` above `start`: that
part was trimmed. A wave is

```text
{wave}
```

Read no further than to the `stop` of a closed segment. In the open one, ask `getState` of `servers`, or `waitTail`, which waits for news of
some seconds: if a majority has answered and none of these is sealed, each offset that a majority of all `servers` has below `localTail` may be read. **`knownTail` of a log server is no such offset**: behind a seal
it may pass the stop that the chain decides. The offset that `append` gives is one. If a server is sealed, wait for a newer register.
Leave `knownTail` of `waitTail` at 0: a server without TLS believes it, and a false one loses entries.

## Errors

An exception's `reason` is the name of the error, a space, and its fields as JSON: `{example}`. Stock libraries put words of
their own before it (C++: `remote exception: `). A text of another form is to be taken for an `UnavailableError`. `type` is for clients that do not look at it. A connection that ends
leaves all its calls with an unknown outcome; if `open` or TLS failed, nothing was done.

What was done is said of this one attempt. A batch that was in doubt before stays so after any error.

{errors}
## Limits

A node reads no more from a connection that owes too much, and closes one that is silent or stuck ([limits](limits.md)).

{limits}"""


def page() -> str:
    """The page, with the tables of methods, errors and limits."""
    return WRITTEN + PAGE.format(
        register=FORMAT_GUARDED,
        batch=_layout(batch),
        wave=_layout(wave),
        first=SPOKEN.first,
        last=SPOKEN.last,
        batch_bytes=_mib(BATCH_BYTES_MAX),
        batch_count=f"{BATCH_COUNT_MAX:,}",
        entry_bytes=_mib(ENTRY_BYTES_MAX),
        batches=BATCHES_MAX,
        keep=SESSION_KEEP_MS // 1000,
        example=encode(UnavailableError("no answer in time")),
        methods=table(("file", "interface", "method", "meaning"), [*_methods()]),
        errors=table(("error", "fields", "`type`", "a client that appends", "this attempt"), [*_errors()]),
        limits=table(("limit", "value"), [*_limits()]),
    )


def _layout(module: ModuleType) -> str:
    """The layout of a format: the indented lines of the docstring of its module."""
    return "\n".join(line[4:] for line in (module.__doc__ or "").splitlines() if line.startswith("    "))


def _methods() -> Iterator[tuple[str, str, str, str]]:
    for interface in interfaces():
        declared = interface.schema.schema.node
        file, name = declared.displayName.split(":")
        numbers = {method.name: method.codeOrder for method in declared.interface.methods}
        for method in interface.methods:
            if interface is NODE or interface.role_of(method) is Role.CLIENT:
                meaning = cell(first_paragraph(method.request.__doc__ or ""))
                ids = f"`{name}` `{declared.id:#x}`", f"`{method.name}` @{numbers[method.name]}"
                yield f"`{file}`", *ids, meaning


def _errors() -> Iterator[tuple[str, ...]]:
    for name, error_class in sorted(WIRE_CLASSES.items()):
        fields = {field.name: str(field.type) for field in attrs.fields(error_class)}  # type: ignore[arg-type]
        blank: dict[str, Any] = {field: {"str": "", "int": 0, "bool": False}[kind] for field, kind in fields.items()}
        _, kind = to_wire(error_class(**blank))
        step, outcome = APPENDS[name]
        yield (
            f"[`{name}`](errors.md)",
            ", ".join(f"`{field}` {kind}" for field, kind in fields.items()),
            kind,
            step,
            outcome,
        )


def _limits() -> Iterator[tuple[str, str]]:
    limits = ServerLimits()
    yield "bytes of a message", f"{FRAME_BYTES_MAX:,}"
    yield "segments of a message", f"{SEGMENTS_MAX}"
    yield "calls of a connection without an answer", f"{PENDING_CALLS_MAX:,}, of {_mib(PENDING_BYTES_MAX)} together"
    yield "answers to `bootstrap` and `open` that wait for their `finish`", f"{KEPT_MAX}"
    yield "time until the first call of a connection", f"{limits.silent_seconds:g} s"
    yield "time for a message that has begun, and for 256 KiB of answers", f"{limits.stalled_seconds:g} s"
    yield "connections of a node", f"{limits.connections_max:,}"


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"

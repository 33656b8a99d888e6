"""Codecs: the layout of a frozen attrs message in a Cap'n Proto struct, derived once per class.

Fields pair by name: `store_id` in the class is `storeId` in the schema. Types pair so:

    int, bool, float, bytes, str     integers, Bool, Float, Data, Text (a NewType is what it wraps)
    enum.Enum                        enum; NOT_DATA is notData
    tuple[X, ...]                    List(X), but not of enums
    frozenset[str]                   List(Text), written in sorted order
    an attrs class                   a struct or a group
    A | B, both attrs classes        a struct or group that is one union; its members are named
    after the classes: a, b
    X | None                         a pointer that may be null: bytes, str, tuples, attrs classes

Both sides must name the same fields with fitting types. That is checked when the codec is derived,
so a mistake shows at start and not on the wire. Schema fields that begin with `obsolete` are
ignored.

The code of a codec is generated, as attrs does it for `__init__`: one statement per field, with the
schema's field objects bound beforehand (`struct_codec.py`). Looking fields up by name on every
access costs three times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import attrs
import capnp

from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.rpc.protocol.struct_codec import struct_codec_of

MessageT = TypeVar("MessageT")

NESTING_MAX: Final = 32
"""Depth of structs within structs. Ours nest five deep; the rest is for what the RPC protocol wraps
around them."""


@attrs.frozen(eq=False)
class Codec(Generic[MessageT]):
    """Codec of one message class in one struct."""

    struct: Any
    """The struct's schema, as pycapnp knows it."""
    fill: Callable[[Any, MessageT], None]
    """`fill(builder, message)`: write the message's fields into an empty struct of a message being
    built."""
    read_untrusted: Callable[[Any], MessageT]
    """`read_untrusted(reader)`: read the message in a received struct. Raises anything: pass it
    through `malformed`."""
    _module: Any = attrs.field(repr=False)

    def encode(self, message: MessageT) -> bytes:
        """Encode the message alone, as the bytes of a Cap'n Proto message, for configs and files."""
        root = self._module.new_message()
        self.fill(root, message)
        encoded: bytes = root.to_bytes()
        return encoded

    def decode_untrusted(self, encoded: bytes) -> MessageT:
        """Decode the bytes of `encode`.

        Raises:
            MalformedError: not such a message.
        """
        try:
            with self._module.from_bytes(encoded, traversal_words_max(len(encoded)), NESTING_MAX) as reader:
                return self.read_untrusted(reader)
        except Exception as error:
            raise malformed("a message", error) from error


def traversal_words_max(message_bytes: int) -> int:
    """Return the number of words a reader may visit in a message of this size.

    We read everything once. More visits mean that pointers of the message share their targets; then
    a small frame could grow into a large one in memory.
    """
    return message_bytes // 4 + 128


def malformed(what: str, error: Exception) -> VirtualLogError:
    """Convert an error of reading untrusted bytes into one to raise.

    `error` may be anything: pycapnp's KjException, text that is not UTF-8 (ValueError), unknown
    enumerants (KeyError), a validator of the message's class.
    """
    if isinstance(error, VirtualLogError):
        return error
    first_line = str(error).partition("\n")[0]
    return MalformedError(f"not {what}: {type(error).__name__} {first_line[:200]}")


_CODECS: Final[dict[tuple[object, int], Codec[Any]]] = {}


def derive(message_class: type[MessageT], struct: Any) -> Codec[MessageT]:
    """Return the codec of `message_class` in `struct`. Derived once, then remembered.

    Args:
        message_class: an attrs class, or a union `A | B` of them.
        struct: a struct of a schema from `virtuallog.contract.schema.load`.

    Raises:
        TypeError: class and struct do not pair as described in the module docstring.
    """
    schema = getattr(struct, "schema", struct)
    key = (message_class, schema.node.id)
    if key not in _CODECS:
        shape = struct_codec_of(message_class, schema)
        _CODECS[key] = Codec(schema, shape.fill, shape.read, _module_of(schema))
    return _CODECS[key]


def _module_of(schema: Any) -> Any:
    """Return a struct as `schema.load` gives it; the parameter structs of methods come without it."""
    return capnp.lib.capnp._StructModule(schema, "")  # noqa: SLF001  # pycapnp has no public name for it

"""Derives, once per class, how a frozen attrs message lies in a Cap'n Proto struct.

Fields pair by name: `store_id` in the class is `storeId` in the schema. Types pair so:

    int, bool, float, bytes, str     integers, Bool, Float64, Data, Text (a NewType is what it wraps)
    enum.Enum                        enum; NOT_DATA is notData
    tuple[X, ...]                    List(X)
    frozenset[str]                   List(Text), written in sorted order
    an attrs class                   a struct or a group
    A | B, both attrs classes        a struct or group that is one union; its members are named after the classes: a, b
    X | None                         a pointer that may be null: bytes, str, tuples, attrs classes

Both sides must name the same fields and fitting types; that is checked when the codec is derived, so a mistake shows
at import and not on the wire. Fields of the schema that begin with `obsolete` are left alone.

The code of a codec is generated, as attrs does it for `__init__`: one statement per field, with the schema's field
objects bound beforehand. Looking fields up by name on every access costs three times as much, `to_dict` twenty times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar

import attrs

from virtuallog.errors import MalformedError

MessageT = TypeVar("MessageT")


@attrs.frozen(eq=False)
class Codec(Generic[MessageT]):
    """One message class in one struct."""

    schema: Any
    """The struct's schema, as pycapnp knows it."""
    fill: Callable[[Any, MessageT], None]
    """`fill(builder, message)`: write the message's fields into an empty struct of a message under construction."""
    read_untrusted: Callable[[Any], MessageT]
    """`read_untrusted(reader)`: the message in a received struct. Raises all that pycapnp raises: see `untrusted`."""

    def encode(self, message: MessageT) -> bytes:
        """The message alone, as the bytes of a Cap'n Proto message: for configs and files."""
        raise NotImplementedError

    def decode_untrusted(self, data: bytes) -> MessageT:
        """The message that `encode` made `data` from.

        Raises:
            MalformedError: not such a message.
        """
        raise MalformedError("not yet")


@cache
def derive(message_class: type[MessageT], struct: Any) -> Codec[MessageT]:
    """The codec of `message_class` in `struct`, a struct of a schema from `virtuallog.rpc.schema.load`.

    Raises:
        TypeError: class and struct do not pair as described above.
    """
    raise NotImplementedError

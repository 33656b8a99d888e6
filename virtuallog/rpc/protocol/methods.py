"""Methods that both ends of a connection know, by request class and by their numbers on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.ports import Request
from virtuallog.rpc.protocol.codec import Codec, derive
from virtuallog.rpc.protocol.node import NODE, NodeOpened


@attrs.frozen(eq=False, kw_only=True)
class BoundMethod:
    """A method with its codecs."""

    interface_id: int
    method_id: int
    name: str
    """Names of interface and method in the schema: `LogServer.store`."""
    title: str
    """Title of the method, as metrics show it: `Store`."""
    params: Codec[Any]
    results: Codec[Any] | None
    """Codec of the results; None if the result is the node itself, as a capability."""


@attrs.frozen(eq=False)
class Methods:
    """All methods of some interfaces."""

    by_request: Mapping[type[Request[Any]], BoundMethod]
    by_number: Mapping[tuple[int, int], BoundMethod]


def bind(interfaces: Iterable[Interface]) -> Methods:
    """Bind the methods of `interfaces`, and those of Node, which every node has.

    Raises:
        TypeError: a message class does not fit its struct, or one class stands for two methods.
    """
    by_request: dict[type[Request[Any]], BoundMethod] = {}
    by_number: dict[tuple[int, int], BoundMethod] = {}
    for interface in (NODE, *interfaces):
        for method in interface.methods:
            bound = _bind(interface, method)
            known = by_request.setdefault(method.request, bound)
            if (known.interface_id, known.method_id) != (bound.interface_id, bound.method_id):
                raise TypeError(f"{method.request.__qualname__} is the request of {known.name} and of {bound.name}")
            by_number[bound.interface_id, bound.method_id] = known
    return Methods(by_request, by_number)


def _bind(interface: Interface, method: Method) -> BoundMethod:
    schema = interface.schema.schema
    name = f"{schema.node.displayName.rpartition(':')[2]}.{method.name}"
    if method.name not in schema.method_names:
        raise TypeError(f"the schema has no method {name}")
    found = schema.methods[method.name]
    return BoundMethod(
        interface_id=schema.node.id,
        method_id=schema.method_names.index(method.name),
        name=name,
        title=method.title,
        params=derive(method.request, found.param_type),
        results=None if method.reply is NodeOpened else derive(method.reply, found.result_type),
    )

"""Methods that both ends of a connection know, by request class and by their numbers on the wire."""

from __future__ import annotations

from collections.abc import Iterable
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
    """All methods of some interfaces. Connections share it, and see what is added."""

    by_request: dict[type[Request[Any]], BoundMethod] = attrs.field(factory=dict)
    by_number: dict[tuple[int, int], BoundMethod] = attrs.field(factory=dict)

    def add(self, interfaces: Iterable[Interface]) -> None:
        """Bind the methods of `interfaces` as well.

        Raises:
            TypeError: a message class does not fit its struct, or one class stands for two methods.
        """
        for interface in interfaces:
            for method in interface.methods:
                bound = _bind(interface, method)
                known = self.by_request.setdefault(method.request, bound)
                if (known.interface_id, known.method_id) != (bound.interface_id, bound.method_id):
                    raise TypeError(f"{method.request.__qualname__} is the request of {known.name} and of {bound.name}")
                self.by_number[bound.interface_id, bound.method_id] = known


def bind(interfaces: Iterable[Interface]) -> Methods:
    """Bind the methods of `interfaces`, and those of Node, which every node has.

    Raises:
        TypeError: as `Methods.add`.
    """
    methods = Methods()
    methods.add((NODE, *interfaces))
    return methods


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

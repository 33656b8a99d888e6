"""Messages about the tree survive the wire, extreme values included."""

from __future__ import annotations

from typing import Any

import pytest

from virtuallog.contract.caller_roles import Role
from virtuallog.rpc.protocol.codec import derive
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX
from virtuallog_database.control.tree_messages import (
    CHILDREN_MAX,
    DATA_BYTES_MAX,
    AclReport,
    ChildrenReport,
    ChildReport,
    ListChildren,
    ListSessions,
    ReadZnode,
    SessionReport,
    SessionsReport,
    ZnodeReport,
)
from virtuallog_database.control.wire import DATABASE

TREE = {
    method.request: method for method in DATABASE.methods if method.request in {ReadZnode, ListChildren, ListSessions}
}
LONG = (1 << 63) - 1
CHILD = ChildReport(
    name="x", data_bytes=1 << 20, children=(1 << 32) - 1, ephemeral_owner=LONG, mtime_ms=LONG, version=-1
)


def test_rights_of_the_requests() -> None:
    """A client may read, and not past an ACL; sessions are for admins."""
    roles = {request.__name__: DATABASE.role_of(method) for request, method in TREE.items()}
    assert roles == {"ReadZnode": Role.CLIENT, "ListChildren": Role.CLIENT, "ListSessions": Role.ADMIN}
    assert TREE[ReadZnode].distrusted == TREE[ListChildren].distrusted == {"as_admin": False}


@pytest.mark.parametrize(
    "message",
    [
        ReadZnode(path="/a", data_bytes_max=(1 << 32) - 1, as_admin=True),
        ListChildren(path="/", after="ü", count=(1 << 32) - 1),
        ListSessions(after=LONG, count=1),
        ZnodeReport(zxid=0, found=False),
        ZnodeReport(
            zxid=LONG, found=True, readable=True, czxid=LONG, ctime_ms=LONG, version=-(1 << 31), cversion=(1 << 31) - 1,
            aversion=-1, ephemeral_owner=LONG, children=(1 << 32) - 1, data_bytes=3, data=b"\0\xff",
            acl=(AclReport(permissions=31, scheme="world", id="anyone"),), data_watches=1, child_watches=2,
        ),
        ChildrenReport(zxid=1, found=True, readable=True, total=1, children=(CHILD,), has_more=True),
        SessionsReport(
            zxid=1, total=2, ephemerals=3, connections=4, watches=LONG, has_more=True,
            sessions=(SessionReport(session=LONG, timeout_ms=1, generation=2, ephemerals=3, has_more_ephemerals=True, attached=True),),
        ),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_a_message_is_read_as_it_was_written(message: Any) -> None:
    """Requests as parameters of their methods, reports as their results."""
    for method in TREE.values():
        schema = DATABASE.schema.schema.methods[method.name]
        for kind, form in ((method.request, schema.param_type), (method.reply, schema.result_type)):
            if kind is type(message):
                codec = derive(kind, form)
                assert codec.decode_untrusted(codec.encode(message)) == message


def test_replies_fit_in_a_frame() -> None:
    """The longest data, and children with long names."""
    assert 2 * DATA_BYTES_MAX < FRAME_BYTES_MAX
    assert CHILDREN_MAX * 16 << 10 <= FRAME_BYTES_MAX

"""Control requests on the wire."""

from __future__ import annotations

from virtuallog.admin.control import CONTROL, GetStatus, NodeStatus
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.methods import bind


def test_every_control_message_fits_its_struct() -> None:
    """Deriving the codecs checks names and types of all fields."""
    assert len(bind([CONTROL]).by_request) == 2 + len(CONTROL.methods)  # 2: those of Node


def test_a_status_arrives_as_it_was_sent() -> None:
    """Every field survives, empty ones included."""
    codec = bind([CONTROL]).by_request[GetStatus].results
    assert codec is not None
    for failures in ((), ("native: broken",)):
        status = NodeStatus(
            cluster=b"", node=NodeId(3), store_id=b"s" * 16, boot=4, roles=("log-server",), software="0.1",
            register=b"", failures=failures, phase="formatting",
        )  # fmt: skip
        assert codec.decode_untrusted(codec.encode(status)) == status

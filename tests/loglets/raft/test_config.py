"""Config of a raft loglet in the chain: JSON that outlives programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftConfig, decode_untrusted

FIELDS: dict[str, Any] = {"replicas": [1, 2, 3], "leader": 2, "boot": 7}
nodes = st.integers(1, 1 << 60).map(NodeId)


@given(
    st.lists(nodes, min_size=1, max_size=7, unique=True), nodes, st.integers(0, 1 << 60),
    st.none() | st.builds(SegmentId, st.integers(0, 1 << 40), st.integers(0, 1 << 60)),
)  # fmt: skip
def test_config_is_read_back(replicas: list[NodeId], leader: NodeId, boot: int, loglet: SegmentId | None) -> None:
    """Every field."""
    made = RaftConfig(replicas=tuple(replicas), leader=leader, boot=boot, loglet=loglet)

    assert decode_untrusted(made.encode()) == made


def test_fields_of_a_later_version_are_kept() -> None:
    """This program does not know them, and writes them again."""
    made = decode_untrusted(json.dumps({**FIELDS, "witness": {"node": 9}}).encode())

    assert made.others == {"witness": {"node": 9}}
    assert json.loads(made.encode()) == {**FIELDS, "witness": {"node": 9}}


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"{", b"[]", b"3", b"null", b"\xff",
        json.dumps({**FIELDS, "replicas": []}).encode(),
        json.dumps({**FIELDS, "replicas": [1, 1]}).encode(),
        json.dumps({**FIELDS, "replicas": ["1"]}).encode(),
        json.dumps({**FIELDS, "replicas": 5}).encode(),
        json.dumps({**FIELDS, "leader": True}).encode(),
        json.dumps({**FIELDS, "boot": 1.5}).encode(),
        json.dumps({**FIELDS, "loglet": "x"}).encode(),
        json.dumps({**FIELDS, "loglet": 5}).encode(),
        json.dumps({"replicas": [1], "leader": 1}).encode(),
    ],
)  # fmt: skip
def test_other_bytes_are_malformed(blob: bytes) -> None:
    """None is taken for a config."""
    with pytest.raises(MalformedError):
        decode_untrusted(blob)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_reader_fail_otherwise(blob: bytes) -> None:
    """Only MalformedError."""
    with pytest.raises(MalformedError):
        decode_untrusted(blob)

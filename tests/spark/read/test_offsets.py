"""Start and end of reads, as options and checkpoints spell them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.read.offsets import At, End, Offset, offset_untrusted, parse_place
from tests.spark.any_json import CLUSTER, JSON
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.types import POSITION_MAX

BAD = (
    "", "first", "-1", "1.5", "true", "null", "[1]", "{}", '{"position": "1"}', '{"position": true}', '{"cluster": "c3"}',
    '{"cluster": "c3", "position": 1}', f'{{"cluster": "{CLUSTER}"}}', '{"position": 1, "topic": 2}', str(POSITION_MAX + 1),
    "[" * 100_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", End.EARLIEST),
        ("Latest", End.LATEST),
        ("4711", At(4711)),
        ('{"position": 7}', At(7)),
        (f'{{"cluster": "{CLUSTER}", "position": 0}}', At(0, CLUSTER)),
    ],
)
def test_a_place_is_an_end_or_a_position(text: str, place: object) -> None:
    """As with Kafka, and a bare number, as a log has no partitions."""
    assert parse_place("startingOffsets", text) == place


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_place_is_refused_by_the_name_of_its_option(text: str) -> None:
    """A misspelled place is refused: a read never begins at a guessed position."""
    with pytest.raises(InvalidSettingError, match="endingOffsets"):
        parse_place("endingOffsets", text)


@given(st.integers(0, POSITION_MAX))
def test_an_offset_survives_a_checkpoint(position: int) -> None:
    """Spark keeps offsets as JSON."""
    offset = Offset(CLUSTER, position)

    assert offset_untrusted(json.loads(json.dumps(offset.plain()))) == offset


@given(JSON)
def test_any_json_is_an_offset_or_refused(fields: object) -> None:
    """A checkpoint may be damaged, or of another program."""
    try:
        offset = offset_untrusted(fields)
    except MalformedError:
        return
    assert offset.plain() == fields


def test_an_offset_is_spelled_in_one_way() -> None:
    """Spark compares the text: with another order of keys nothing new would be a new offset, and each look a batch."""
    assert json.dumps(Offset(CLUSTER, 7).plain()) == f'{{"cluster": "{CLUSTER}", "position": 7}}'
    assert json.dumps(offset_untrusted({"position": 7, "cluster": CLUSTER}).plain()) == json.dumps(
        Offset(CLUSTER, 7).plain()
    )


@pytest.mark.parametrize(
    "fields", [None, 7, "7", {"position": 7}, {"cluster": CLUSTER, "position": -1}, {"topic": {"0": 1}}]
)
def test_a_checkpoint_of_something_else_is_refused(fields: object) -> None:
    """A checkpoint of another source, say."""
    with pytest.raises(MalformedError, match="not an offset"):
        offset_untrusted(fields)

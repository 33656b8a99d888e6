"""Options of reads: what they mean, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.options import TEXT_MAX
from pyspark_virtuallog.read.offsets import At, End, Since
from pyspark_virtuallog.read.options import NAMES, ReadOptions, batch_options, stream_options
from pyspark_virtuallog.write import options as write_options
from tests.spark.any_json import JSON
from virtuallog.contract.errors import InvalidSettingError

GIVEN = {
    "clusterid": "C3" * 16,
    "startingoffsets": " 7 ",
    "failondataloss": "False",
    "positionsperpartition": "1000",
    "minpartitions": "4",
    "isolationlevel": "read_committed",
    "patienceseconds": "2.5",
}
READ = ReadOptions(
    cluster="c.toml",
    cluster_id="c3" * 16,
    start=At(7),
    fail_on_data_loss=False,
    positions_per_partition=1000,
    min_partitions=4,
    committed_only=True,
    patience_seconds=2.5,
)
BAD: tuple[tuple[Mapping[str, str], str], ...] = (
    ({"startingoffset": "1"}, "did you mean startingOffsets?"),
    ({"subscribe": "topic"}, "no option of virtuallog: there are cluster"),
    ({"startingoffsets": "latest"}, "startingOffsets: latest"),
    ({"endingoffsets": "earliest"}, "endingOffsets: earliest"),
    ({"startingoffsets": "1", "startingtimestamp": "1"}, "startingTimestamp: startingOffsets says the same"),
    ({"path": "other.toml"}, "says the same"),
    ({"startingtimestamp": "yesterday"}, "startingTimestamp"),
    ({"failondataloss": "no"}, "failOnDataLoss: 'no' is not true or false"),
    ({"minpartitions": "0"}, "minPartitions"),
    ({"positionsperpartition": "1e6"}, "positionsPerPartition"),
    ({"isolationlevel": "snapshot"}, "isolationLevel"),
    ({"patienceseconds": "nan"}, "patienceSeconds"),
    ({"clusterid": "7"}, "clusterId"),
    ({"pushdown": "true"}, "pushdown: PySpark up to 4.3.0 gives every further scan"),
    ({"startingoffsets": "9" * (TEXT_MAX + 1)}, "startingOffsets: has 4097 characters, more than 4096"),
    ({"maxoffsetspertrigger": "10"}, r"maxOffsetsPerTrigger: is an option of spark\.readStream only"),
)


def test_a_read_needs_only_to_know_its_cluster() -> None:
    """All else has a default: all that is there, and nothing may be missing."""
    assert batch_options({"cluster": "c.toml"}) == ReadOptions(cluster="c.toml")
    assert batch_options({"path": "c.toml"}) == ReadOptions(cluster="c.toml")


def test_options_are_those_of_the_kafka_source_in_any_letters() -> None:
    """Spark hands them over in small ones."""
    assert batch_options({"cluster": "c.toml", **GIVEN}) == READ
    assert batch_options({"CLUSTER": "c.toml", "endingTimestamp": "5"}).stop == Since(5)


@pytest.mark.parametrize(("options", "said"), BAD, ids=lambda value: str(value)[:60])
def test_what_cannot_be_meant_is_refused(options: Mapping[str, str], said: str) -> None:
    """Meaningless options are refused, also misspelled ones: a default in their place could lose data."""
    with pytest.raises(InvalidSettingError, match=said):
        batch_options({"cluster": "c.toml", **options})


def test_a_cluster_must_be_named() -> None:
    """It says how."""
    with pytest.raises(InvalidSettingError, match="cluster: is missing"):
        batch_options({})


def test_a_stream_begins_at_the_tail_unless_told_otherwise() -> None:
    """A stream begins at the tail by default, as with Kafka."""
    assert stream_options({"cluster": "c.toml"}).start is End.LATEST
    assert stream_options({"cluster": "c.toml", "startingOffsets": "earliest"}).start is End.EARLIEST
    assert stream_options({"cluster": "c.toml", "maxOffsetsPerTrigger": "9"}).offsets_per_trigger == 9


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "pushdown", "singleScan"])
def test_a_stream_has_no_end_and_takes_no_filters(name: str) -> None:
    """Spark pushes filters into batches only."""
    with pytest.raises(InvalidSettingError, match=rf"{name}: is an option of spark\.read only"):
        stream_options({"cluster": "c.toml", name: "1"})


def test_filters_are_taken_from_those_who_scan_once() -> None:
    """Others would get fewer rows than there are, without an error: nothing tells a second scan from the first (docs/howto/spark.md)."""
    assert batch_options({"cluster": "c.toml", "pushdown": "true", "singleScan": "true"}).pushdown
    assert not batch_options({"cluster": "c.toml", "singleScan": "true"}).pushdown


VALUES = st.one_of(
    st.text(max_size=20),
    st.integers().map(str),
    st.integers(0, 9).map(lambda digit: str(digit) * TEXT_MAX),
    st.sampled_from(["true", "earliest", "latest", "read_committed", "inf", "\u0661", "\u00b2", "1_000"]),
    JSON.map(json.dumps),
)
KEYS = st.sampled_from([*NAMES, *write_options.NAMES]).map(str.lower) | st.text(
    st.characters(codec="ascii", categories=["L"]), max_size=9
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_is_given_is_taken_or_refused_in_a_line(given: Mapping[str, str]) -> None:
    """The error is one of ours, names an option, and does not repeat the whole input."""
    for parse in (batch_options, stream_options, write_options.batch_options, write_options.stream_options):
        for cluster in ({}, {"cluster": "c.toml"}):
            said = ""
            try:
                parse({**cluster, **given})
            except InvalidSettingError as error:
                said = str(error)
            assert len(said.splitlines()) <= 1
            assert len(said) < TEXT_MAX + 200

"""Options of reads: what they mean, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyspark_virtuallog.offsets import At, End, Since
from pyspark_virtuallog.options import ReadOptions, batch_options, stream_options
from virtuallog.errors import InvalidSettingError

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


@pytest.mark.parametrize(("given", "said"), BAD, ids=str)
def test_what_cannot_be_meant_is_refused(given: Mapping[str, str], said: str) -> None:
    """Also what is only misspelled: a default in its place could lose data."""
    with pytest.raises(InvalidSettingError, match=said):
        batch_options({"cluster": "c.toml", **given})


def test_a_cluster_must_be_named() -> None:
    """It says how."""
    with pytest.raises(InvalidSettingError, match="cluster: is missing"):
        batch_options({})


def test_a_stream_begins_at_the_tail_unless_told_otherwise() -> None:
    """As with Kafka."""
    assert stream_options({"cluster": "c.toml"}).start is End.LATEST
    assert stream_options({"cluster": "c.toml", "startingOffsets": "earliest"}).start is End.EARLIEST
    assert stream_options({"cluster": "c.toml", "maxOffsetsPerTrigger": "9"}).offsets_per_trigger == 9


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "pushdown"])
def test_a_stream_has_no_end_and_takes_no_filters(name: str) -> None:
    """Spark pushes filters into batches only."""
    with pytest.raises(InvalidSettingError, match=rf"{name}: is an option of spark\.read only"):
        stream_options({"cluster": "c.toml", name: "1"})

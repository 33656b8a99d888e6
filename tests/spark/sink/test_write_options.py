"""Options of a write: options and columns are taken, or refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_virtuallog.write.options import WriteOptions, batch_options, stream_options
from pyspark_virtuallog.write.payloads import find_column, payloads_of
from virtuallog.contract.errors import InvalidSettingError

CLUSTER = {"cluster": "c.toml"}


def test_options_of_a_job() -> None:
    """Given options are taken, the rest has its default."""
    given = {"path": "c.toml", "clusterid": "AB" * 16, "patienceSeconds": "5", "txnappid": "nightly", "TXNVERSION": "0"}

    assert batch_options(given) == WriteOptions(
        cluster="c.toml", cluster_id="ab" * 16, patience_seconds=5.0, application="nightly", version=0
    )
    assert batch_options(CLUSTER).transaction is None


def test_a_job_has_one_name_wherever_it_runs() -> None:
    """It is durable: another program must come to the same bytes."""
    transaction = batch_options({**CLUSTER, "txnAppId": "nightly", "txnVersion": "7"}).transaction

    assert transaction == (bytes.fromhex("2a3b62b53ddb9f167b63d22202a36081"), 7)


def test_options_of_a_stream_come_with_some_of_sparks_own() -> None:
    """Those are passed over; ours are checked as strictly as ever."""
    assert stream_options({**CLUSTER, "checkpointlocation": "/c", "queryname": "q"}) == WriteOptions(cluster="c.toml")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "cluster: is missing"),
        ({"cluster": " "}, "cluster: is empty"),
        ({**CLUSTER, "chekpointLocation": "x"}, "chekpointLocation: is no option"),
        ({**CLUSTER, "startingOffsets": "earliest"}, "startingOffsets: is no option"),
        ({**CLUSTER, "txnAppId": "nightly"}, "txnAppId: needs txnVersion"),
        ({**CLUSTER, "txnVersion": "1"}, "txnAppId: needs txnVersion"),
        ({**CLUSTER, "txnAppId": "a", "txnVersion": "-1"}, "txnVersion: '-1' is not a number"),
    ],
)
def test_others_are_refused_by_name(given: dict[str, str], words: str) -> None:
    """A typo must not become a default."""
    with pytest.raises(InvalidSettingError, match=words):
        batch_options(given)


def test_a_stream_has_a_name_already() -> None:
    """A second one could contradict Spark's."""
    with pytest.raises(InvalidSettingError, match=r"txnVersion: is an option of DataFrame\.write only"):
        stream_options({**CLUSTER, "txnVersion": "1"})


@pytest.mark.parametrize("column", [("payload", "binary"), ("value", "string"), ("Value", "binary")])
def test_one_column_is_written(column: tuple[str, str]) -> None:
    """By either of its names."""
    assert find_column([column]) == column[0]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([], "this has nothing"),
        ([("value", "bigint")], "this has value BIGINT"),
        ([("text", "string")], "this has text STRING"),
        ([("payload", "binary"), ("key", "binary")], "this has payload BINARY, key BINARY"),
    ],
)
def test_others_would_be_lost_and_are_refused(columns: list[tuple[str, str]], said: str) -> None:
    """The log keeps payloads and nothing else of a row."""
    with pytest.raises(InvalidSettingError, match=said):
        find_column(columns)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_is_written_as_utf_8(kind: pa.DataType) -> None:
    """Text is written as UTF-8, as Kafka's sink does."""
    batch = pa.record_batch({"value": pa.array(["ä", None], kind)})

    assert payloads_of(batch, "value").to_pylist() == ["ä".encode(), None]

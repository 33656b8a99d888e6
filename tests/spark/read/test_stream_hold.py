"""A stream over the log of a real database holds it, while it runs and afterwards."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pyspark_virtuallog.clients import close_clients
from pyspark_virtuallog.read.options import stream_options
from pyspark_virtuallog.read.schema import SCHEMA
from pyspark_virtuallog.read.stream import LogStreamReader
from tests.free_ports import free_ports
from tests.server.database.test_processes import wait_serving
from tests.spark.one_node import in_thread, log_of_one_node
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import UnsupportedError
from virtuallog.contract.types import NodeId
from virtuallog_database.control.client import call_any_replica, find_hold
from virtuallog_database.control.messages import FindAllowedTrim
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def reader(cluster: str, every_seconds: float = 0.0) -> LogStreamReader:
    """Make a reader as Spark does for each run of a query."""
    made = LogStreamReader(stream_options({"cluster": cluster, "hold": "copy", "startingOffsets": "earliest"}), SCHEMA)
    assert made._holder is not None
    made._holder._holding.every_seconds = every_seconds
    return made


async def is_needed(log: VirtualLog) -> bool:
    """True if a server trims no further because of the stream."""
    allowed = await call_any_replica(log.view.environment.services, [NodeId(1)], FindAllowedTrim())
    return "hold copy" in allowed.reasons


async def test_a_stream_holds_the_log_of_a_database(tmp_path: Path) -> None:
    """From its beginning, then from the start of the last batch that is committed; also once it has ended, and when it goes on."""
    async with open_local_cluster(tmp_path / "cluster", 1, base_port=0, zookeeper_port=free_ports(1)) as cluster:
        await wait_serving(cluster)
        cluster.write_file()
        path = str(cluster.file_path)
        try:
            async with connect(cluster.file, more=[DATABASE]) as log:
                await log.append_many([b"%d" % number for number in range(100)])
                run = reader(path)
                start = await in_thread(run.initialOffset)
                assert await find_hold(log, "copy") == start["position"]
                assert await is_needed(log)
                ends = [{**start, "position": start["position"] + done} for done in (10, 20, 30)]
                limit = run.getDefaultReadLimit()
                for end in ends:
                    await in_thread(run.commit, end)
                    await in_thread(partial(run.latestOffset, end, limit))
                assert await find_hold(log, "copy") == ends[1]["position"]

                again = reader(path)
                assert await in_thread(partial(again.partitions, ends[2], ends[2])) == []
                assert await find_hold(log, "copy") == ends[1]["position"]
        finally:
            await in_thread(close_clients)


async def test_a_log_without_a_database_has_nobody_who_keeps_holds(tmp_path: Path) -> None:
    """A stream that wants holds is refused at its begin if the log has no database."""
    async with log_of_one_node(tmp_path) as (cluster, _):
        with pytest.raises(UnsupportedError, match="no database stands on this log"):
            await in_thread(reader(cluster).initialOffset)

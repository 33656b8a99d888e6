"""Each action against four real nodes, from the dry run to the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console.actions.acting import ActingConsole, acting
from virtuallog.connect import connect
from virtuallog.contract.provider import servers_of
from virtuallog.contract.types import LogPosition, NodeId, PlacedBatch
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = pytest.mark.processes
ENTRIES = [b"entry %d" % number for number in range(100)]


async def test_actions_change_a_cluster(tmp_path: Path) -> None:
    """A swap to another kind, an archive of the closed segment, a trim, and a drain. Each is on the chain page or in the log afterwards, and
    what is left of the log reads as before."""
    archives = f"file://{tmp_path / 'archives'}"
    async with open_local_cluster(tmp_path / "cluster", 4, base_port=0) as cluster:
        await cluster.wait_ready()
        async with connect(cluster.file, more=[DATABASE]) as log, acting(log, archives=archives) as console:
            await log.append_many(ENTRIES)
            await log.reconfig_members([NodeId(1), NodeId(2), NodeId(3)])
            await swap(console)
            await archive(console, archives)
            await trim(console)
            await drain(console)
            records = await console.records()
            after = await log.read(LogPosition(40), LogPosition(100))
            shown = await console.page("/actions")

    done = [(record.event, record.action, record.outcome) for record in records]
    actions = ("reconfigure", "archive", "trim", "drain")
    assert done == [row for name in actions for row in (("intent", name, ""), ("outcome", name, "done"))]
    assert all(record.version_after >= record.version for record in records if record.outcome)
    left = [record.payload for each in after if isinstance(each, PlacedBatch) for record in each.records()]
    assert left == ENTRIES[40:]
    assert "These are all records that are in the log" in shown.text


async def swap(console: ActingConsole) -> None:
    """From native to raft."""
    planned = await console.page("/actions/reconfigure?kind=raft")
    assert "the native segment" in planned.text
    assert "a new raft segment takes the appends from there on, on nodes" in planned.text
    page = await console.act("reconfigure", "reconfigure raft", kind="raft")
    assert "the log goes on on the raft segment" in page.text
    chain = await console.page("/")
    assert "raft" in chain.text
    assert [one.kind for one in (await console.log.view.refresh()).chain.segments] == ["native", "raft"]


async def archive(console: ActingConsole, archives: str) -> None:
    """The closed segment, below the URL of the settings."""
    closed = (await console.log.view.refresh()).chain.segments[0]
    planned = await console.page(f"/actions/archive?segment={closed.id}")
    assert f"this console writes {archives}/" in planned.text
    page = await console.act("archive", f"archive {closed.start} to {closed.stop}", segment=closed.id)
    assert "entries in 1 files" in page.text
    assert [one.kind for one in (await console.log.view.refresh()).chain.segments] == ["archive", "raft"]
    gone = await console.get(f"/actions/archive?segment={closed.id}")
    assert gone.status == 400


async def trim(console: ActingConsole) -> None:
    """Within the archive."""
    planned = await console.page("/actions/trim?position=40")
    assert "40 positions: 0 to 39" in planned.text
    assert "a part of the archive segment" in planned.text
    await console.act("trim", "trim 40", position=40)
    assert await console.log.find_trim_point() == 40


async def drain(console: ActingConsole) -> None:
    """A node that the open segment rests on; then it cannot be drained again."""
    last = (await console.log.view.refresh()).chain.last
    node = min(servers_of(console.log.view.provider(last.kind), last.config))
    planned = await console.page(f"/actions/drain?node={node}")
    assert f"type drain {node}" in planned.text, planned.text
    assert f"the log goes on on a new one of the kind without node {node}" in planned.text
    page = await console.act("drain", f"drain {node}", node=node)
    assert f"nothing is on node {node} any more" in page.text
    register = await console.log.view.refresh()
    assert node not in register.members
    assert register.drained([node]) == [node]
    again = await console.act("drain", f"drain {node}", 409, node=node)
    assert "it is drained" in again.text
    assert (await console.get("/actions/drain?node=99")).status == 400

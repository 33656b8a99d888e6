"""The simulated object store: it loses nothing, and fails as real ones may."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.object_store import FilesServer, SimulatedFiles
from virtuallog.testing.sim.process import Process
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.world import World, open_world

SERVER, CLIENT = NodeId(903), NodeId(1001)
URL = "simulated://here"


def told(story: Callable[[World, FilesServer, SimulatedFiles], Awaitable[None]]) -> FilesServer:
    """Run a test of one client; return the server in its final state."""
    servers: list[FilesServer] = []

    async def run() -> None:
        async with open_world(1) as world:
            server = FilesServer(world.network, random.Random(1))
            servers.append(server)
            world.network.listen(Process(SERVER), server.handlers)
            async with world.client(CLIENT):
                await story(world, server, SimulatedFiles(world.network, SERVER, URL))

    scheduler.run(1, run)
    return servers[0]


def test_what_is_written_can_be_read() -> None:
    """A file can be read whole, in part, and by its size, until it is deleted; a file to keep stays."""

    async def story(world: World, server: FilesServer, files: SimulatedFiles) -> None:
        assert await files.list() == {}
        assert await files.write("a", b"abcdef")
        assert not await files.write("a", b"other", replace=False)
        assert await files.read("a") == b"abcdef"
        assert await files.read_range("a", 2, 4) == b"cd"
        assert await files.list() == {"a": 6}
        await files.delete("a")
        await files.delete("a")
        assert await files.read("a") is None

    told(story)


def test_who_is_refused_has_done_nothing() -> None:
    """A refused request has no effect, and its caller gets an error."""

    async def story(world: World, server: FilesServer, files: SimulatedFiles) -> None:
        server.refusing = 1.0
        with pytest.raises(UnavailableError):
            await files.write("a", b"abcdef")

    assert told(story).directories.get(URL, {}) == {}


def test_half_a_file_stays_if_its_writer_dies() -> None:
    """Without atomic writes half a file stays if its writer dies; a living writer finishes it."""

    async def die(world: World, server: FilesServer, files: SimulatedFiles) -> None:
        server.torn = 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.write, "a", b"abcdef")
            while not server.directories.get(URL):
                await trio.sleep(0.0001)
            world.clients[CLIENT].crash()
            nursery.cancel_scope.cancel()
        await trio.sleep(1.0)

    async def live(world: World, server: FilesServer, files: SimulatedFiles) -> None:
        server.torn = 1.0
        await files.write("a", b"abcdef")

    assert told(die).directories[URL] == {"a": b"abc"}
    assert told(live).directories[URL] == {"a": b"abcdef"}


def test_damage_on_the_way_is_one_bit() -> None:
    """Damage on the way flips one bit, and is counted."""

    async def story(world: World, server: FilesServer, files: SimulatedFiles) -> None:
        server.damaging = 1.0
        await files.write("a", b"abcdef")

    server = told(story)
    found = int.from_bytes(server.directories[URL]["a"]) ^ int.from_bytes(b"abcdef")

    assert found.bit_count() == 1
    assert server.network.counts["file damaged"] == 1

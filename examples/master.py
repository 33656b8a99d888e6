"""A master of agents, with hot standbys: python examples/master.py CLUSTER DIR PORT NAME

Several of these run beside a cluster (`virtuallog up --zookeeper 2181 --data data`). One of them leads, by a lock in the database. All others
follow its registry, and take over when its session ends. A leader that stood still and comes back as a rogue cannot write: its store is
refused, whatever it believes. Agents, and operators, talk to the leader on PORT in lines of JSON:

    {"admit": "agent-1", "hostname": "h1"}      {"permitted": true, "changed": true}
    {"remove": "agent-1"}                       {"permitted": false, "reason": "agent-1 is not admitted"}
    {"list": true}                              {"leader": true, "agents": ["agent-1"]}

{"leader": false} says that nothing is known: this is not the leader, or it has just been deposed. Ask again, anywhere. {"error": ...} says
that the line is none of these, and nothing has been done.
"""

import json
import sys
from contextlib import suppress

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.replica import open_replica
from virtuallog.state import (
    Edit,
    EmptyPolicy,
    Follower,
    NotPermittedError,
    Operation,
    Registrar,
    RegistrarSettings,
    json_table,
    open_follower,
    open_registrar,
)

SESSION_SECONDS = 2.0
LINE_BYTES_MAX = 4096
NAME_BYTES_MAX = 255


@attrs.frozen
class Agent:
    hostname: str = ""


AGENTS = json_table("agents", Agent)
REMOVED = json_table("removed", Agent)


@attrs.frozen
class Admit:
    agent: str
    hostname: str

    def perform(self, edit: Edit) -> None:
        if edit.get(AGENTS, self.agent) is not None or edit.get(REMOVED, self.agent) is not None:
            raise NotPermittedError(f"{self.agent} is admitted, or was removed for good")
        edit.put(AGENTS, self.agent, Agent(self.hostname))


@attrs.frozen
class Remove:
    agent: str

    def perform(self, edit: Edit) -> None:
        agent = edit.get(AGENTS, self.agent)
        if agent is None:
            raise NotPermittedError(f"{self.agent} is not admitted")
        edit.delete(AGENTS, self.agent)
        edit.put(REMOVED, self.agent, agent)


@attrs.define
class Master:
    client: object
    name: str
    registrar: Registrar | None = None  # while this process leads, or believes to

    async def run(self) -> None:
        """Follow and lead in turn, for ever. A process that was deposed, or found no registry where one was, prints so and begins anew."""
        while True:
            try:
                async with (
                    open_follower(self.client.variables, "agents", tables=[AGENTS, REMOVED]) as follower,
                    self.client.session(SESSION_SECONDS) as session,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(self.resign_when_over, session, nursery.cancel_scope)
                    await self.wait_for_lock(session)
                    print("leads", self.name, flush=True)
                    await self.lead(follower)
                    nursery.cancel_scope.cancel()
            except* VirtualLogError as errors:
                print("begins anew", self.name, errors.exceptions, flush=True)
                await trio.sleep(SESSION_SECONDS)

    async def wait_for_lock(self, session: object) -> None:
        """The session with the lowest number leads."""
        own = await session.create_ephemeral("/masters/", self.name.encode(), sequential=True)
        async with session.watch("/masters", recursive=True) as changes:
            while min(await session.children("/masters", linearizable=True), default="") != own.rpartition("/")[2]:
                await anext(aiter(changes))

    async def resign_when_over(self, session: object, scope: trio.CancelScope) -> None:
        await session.wait_expired()
        scope.cancel()

    async def lead(self, follower: Follower) -> None:
        # A registry that was there and is gone has been expunged, or is another database's: an operator decides what follows.
        has_begun = bool((await self.client.get("/masters", linearizable=True)).data)
        settings = RegistrarSettings(empty=EmptyPolicy.FAIL if has_begun else EmptyPolicy.INITIALIZE)
        async with open_registrar(
            self.client.variables,
            "agents",
            tables=[AGENTS, REMOVED],
            owner=self.name,
            settings=settings,
            follower=follower,
        ) as registrar:
            await registrar.recover()
            if not has_begun:
                await self.client.set("/masters", b"the registry has begun")
            self.registrar = registrar
            print("serves", self.name, flush=True)
            try:
                print("deposed", self.name, await registrar.ended(), flush=True)
            finally:
                self.registrar = None

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection, a line at a time."""
        waiting = b""
        async with stream:
            try:
                async for piece in stream:
                    *lines, waiting = (waiting + piece).split(b"\n")
                    for line in lines:
                        await stream.send_all(json.dumps(await self.answer(line)).encode() + b"\n")
                    if len(waiting) > LINE_BYTES_MAX:
                        return
            except trio.BrokenResourceError:
                return

    async def answer(self, line: bytes) -> dict[str, object]:
        try:
            operation = operation_of(json.loads(line))
        except (ValueError, RecursionError):
            return {"error": "a line is one of admit, remove, list"}
        registrar = self.registrar
        if registrar is None:
            return {"leader": False}
        if operation is None:
            return {"leader": True, "agents": [key for key, _ in registrar.registry.items(AGENTS)]}
        try:
            result = await registrar.apply(operation)
        except VirtualLogError as error:
            return {"leader": False, "error": str(error)}
        return {"permitted": result.is_permitted, "changed": result.is_changed, "reason": result.reason}


def operation_of(asked: object) -> Operation | None:
    """The operation that a line asks for; None for the list. Raises ValueError: it is none of these."""
    match asked:
        case {"list": True}:
            return None
        case {"admit": str(agent), "hostname": str(hostname)}:
            return Admit(checked(agent), checked(hostname))
        case {"admit": str(agent)} if "hostname" not in asked:
            return Admit(checked(agent), "")
        case {"remove": str(agent)}:
            return Remove(checked(agent))
    raise ValueError("a line that asks for nothing")


def checked(name: str) -> str:
    """A name as it is. Raises ValueError: it is empty, too long for a key, or has a lone surrogate."""
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise ValueError(f"a name has 1 to {NAME_BYTES_MAX} bytes")
    return name


async def main(cluster: str, folder: str, port: str, name: str) -> None:
    async with open_replica(cluster, folder) as client, trio.open_nursery() as nursery:
        if await client.exists("/masters") is None:
            with suppress(VirtualLogError):  # another one was faster
                await client.create("/masters")
        master = Master(client, name)
        nursery.start_soon(master.run)
        await trio.serve_tcp(master.serve, int(port), host="127.0.0.1")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

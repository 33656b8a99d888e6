"""Registries over HTTP: RegistrarTest's Authentication and `GET /registrar/NAME/registry`."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from tests.server.process.console.http_client import get
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.tables import RecordTable
from virtuallog_database.registrar.registrar import Registrar, open_registrar
from virtuallog_database.state.records import PackedRecords
from virtuallog_database.state.storages.memory import MemoryStorage
from virtuallog_server.process.console.registry_pages import serve_registries

JOBS = RecordTable[dict[str, str]]("jobs", lambda record: json.dumps(record).encode(), json.loads)
NOTES = RecordTable[bytes]("notes", bytes, bytes)


@attrs.frozen
class Fill:
    def perform(self, edit: Edit) -> None:
        edit.put(JOBS, "j1", {"command": "make"})
        edit.put(NOTES, "n", b"\xff")


@asynccontextmanager
async def served(
    users: dict[str, str] | None = None, *, name: str = "registry", jsonp: bool = False
) -> AsyncIterator[tuple[Registrar, int]]:
    """A registrar that is not recovered, and the port of its pages."""
    async with (
        open_registrar(PackedRecords(MemoryStorage()), name, tables=[JOBS, NOTES], owner="me") as registrar,
        trio.open_nursery() as nursery,
    ):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(lambda: serve_registries([registrar], [listener], users=users, jsonp=jsonp))
        yield registrar, listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def basic(text: str) -> str:
    """The header of a user and a password."""
    return "Basic " + base64.b64encode(text.encode()).decode()


async def test_the_registry_as_last_stored() -> None:
    """Empty before the recovery; then every table, with what is no JSON in base 64; also for a script of another page."""
    async with served(jsonp=True) as (registrar, port):
        assert (await get(port, "/registrar/registry/registry")).text == "{}"
        await registrar.recover()
        await registrar.apply(Fill())
        found = json.loads((await get(port, "/registrar/registry/registry")).text)
        assert found == {"jobs": {"j1": {"command": "make"}}, "notes": {"n": {"base64": "/w=="}}}
        wrapped = await get(port, "/registrar/registry/registry?jsonp=a.b")
        assert wrapped.text == f"a.b({json.dumps(found)});"
        for name in ("alert(1)//", "cb%0a", "c%C3%A9", "", "a..b", "a.", "1a", "x" * 129):
            assert (await get(port, f"/registrar/registry/registry?jsonp={name}")).status == 400
        assert (await get(port, "/registrar/other/registry")).status == 404


async def test_scripts_of_other_pages_read_nothing() -> None:
    """Unless it is switched on: any page that the operator's browser shows could read the registry. No answer is guessed to be a script."""
    async with served() as (registrar, port):
        await registrar.recover()
        assert (await get(port, "/registrar/registry/registry?jsonp=a")).status == 400
        for path in ("/registrar/registry/registry", "/registrar/none/registry", "/metrics"):
            assert (await get(port, path)).headers["x-content-type-options"] == "nosniff"


@attrs.frozen
class PutNote:
    key: str
    note: bytes

    def perform(self, edit: Edit) -> None:
        edit.put(NOTES, self.key, self.note)


async def test_a_record_that_is_no_json_hides_no_other() -> None:
    """NaN, too large numbers and deep nesting are shown in base 64, a lone surrogate is escaped, in a record and in a key."""
    notes = {
        "nan": b"NaN",
        "large": b"[1e999]",
        "deep": b"[" * 5000 + b"]" * 5000,
        "deeper": b"[" * 10**6,
        "\udc80": b"1",
    }
    async with served() as (registrar, port):
        await registrar.recover()
        for key, note in {**notes, "text": b'"\\ud800"'}.items():
            await registrar.apply(PutNote(key, note))
        found = json.loads((await get(port, "/registrar/registry/registry")).text)["notes"]
        assert {key: base64.b64decode(found[key]["base64"]) for key in notes if key != "\udc80"} == {
            key: note for key, note in notes.items() if key != "\udc80"
        }
        assert (found["\udc80"], found["text"]) == (1, "\ud800")


async def test_a_name_with_slashes_is_found() -> None:
    """Names of registries are any text."""
    async with served(name="a/b") as (_, port):
        for path in ("/registrar/a/b/registry", "/registrar/a%2Fb/registry"):
            assert (await get(port, path)).text == "{}"


async def test_only_known_users_are_answered() -> None:
    """401 without a user, with a wrong password, and with a header that is none; 200 with the right one."""
    async with served({"operator": "secret"}) as (_, port):
        for header in (
            "",
            basic("operator:wrong"),
            basic("other:secret"),
            basic("operator"),
            "Basic \xff",
            "Bearer secret",
        ):
            refused = await get(port, "/registrar/registry/registry", authorization=header)
            assert refused.status == 401
            assert refused.headers["www-authenticate"].startswith("basic")
        assert (await get(port, "/metrics")).status == 401
        assert (await get(port, "/registrar/registry/registry", authorization=basic("operator:secret"))).status == 200


async def test_metrics_have_the_names_of_mesos() -> None:
    """The size of the registry has no sample before the recovery; times are in milliseconds."""
    async with served() as (registrar, port):
        assert "registrar_registry_size_bytes{" not in (await get(port, "/metrics")).text
        await registrar.recover()
        await registrar.apply(Fill())
        lines = (await get(port, "/metrics")).text.splitlines()
        assert 'registrar_queued_operations{name="registry"} 0.0' in lines
        assert 'registrar_state_fetch_ms_count{name="registry"} 1.0' in lines
        assert 'registrar_state_store_ms_count{name="registry"} 2.0' in lines
        (size,) = [line for line in lines if line.startswith("registrar_registry_size_bytes{")]
        assert float(size.split()[1]) == registrar.registry.size > 60

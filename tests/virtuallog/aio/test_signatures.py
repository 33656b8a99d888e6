"""The asyncio API beside the trio one: the same names, parameters, defaults and results."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

import virtuallog
import virtuallog.aio.embedded
import virtuallog.aio.replica
import virtuallog.aio.state
import virtuallog.aio.table
import virtuallog.embedded
import virtuallog.replica
import virtuallog.state
import virtuallog.table
from virtuallog import aio
from virtuallog.client import scan, time_search
from virtuallog.client.appender import Appender
from virtuallog.client.reader import Reader
from virtuallog.client.virtual_log import VirtualLog
from virtuallog_database.client import DatabaseClient, Session, Transaction, WatchStream
from virtuallog_database.registrar.core.tables import Registry
from virtuallog_database.state.records import RecordStorage
from virtuallog_database.state.storage import StateStorage

CLASSES: Final[dict[type, type]] = {
    VirtualLog: aio.AsyncioLog,
    Appender: aio.AsyncioAppender,
    Reader: aio.AsyncioReader,
    scan.Scan: aio.AsyncioScan,
    DatabaseClient: virtuallog.aio.replica.AsyncioDatabaseClient,
    Session: virtuallog.aio.replica.AsyncioSession,
    Transaction: virtuallog.aio.replica.AsyncioTransaction,
    WatchStream: virtuallog.aio.replica.AsyncioWatchStream,
    virtuallog.table.Tables: virtuallog.aio.table.AsyncioTables,
    virtuallog.table.TableTransaction: virtuallog.aio.table.AsyncioTableTransaction,
    StateStorage: virtuallog.aio.state.AsyncioStateStorage,
    RecordStorage: virtuallog.aio.state.AsyncioRecordStorage,
    virtuallog.state.State: virtuallog.aio.state.AsyncioState,
    virtuallog.state.Registrar: virtuallog.aio.state.AsyncioRegistrar,
    virtuallog.state.Follower: virtuallog.aio.state.AsyncioFollower,
    Registry: virtuallog.aio.state.AsyncioRegistry,
}
FUNCTIONS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    virtuallog.connect: aio.connect,
    scan.scan: aio.scan,
    time_search.find_time: aio.find_time,
    virtuallog.embedded.open_embedded: virtuallog.aio.embedded.open_embedded,
    virtuallog.replica.open_replica: virtuallog.aio.replica.open_replica,
    virtuallog.state.State: virtuallog.aio.state.AsyncioState,
    virtuallog.state.open_storage: virtuallog.aio.state.open_storage,
    virtuallog.state.records_of: virtuallog.aio.state.records_of,
    virtuallog.state.open_registrar: virtuallog.aio.state.open_registrar,
    virtuallog.state.open_follower: virtuallog.aio.state.open_follower,
}
OMITTED: Final = {
    "VirtualLog.post": "calls back on the trio loop",
    "Appender.append_now": "saves a coroutine, which the way to the other loop needs",
    "Appender.post": "calls back on the trio loop",
    "Appender.post_many": "calls back on the trio loop",
    "Appender.try_post": "calls back on the trio loop",
    "Session.begin": "for DatabaseHandle",
    "Session.keep_alive": "for open_session",
    "WatchStream.begin": "for DatabaseHandle",
    "WatchStream.fire": "for Watches",
    "WatchStream.identities": "for Watches",
    "WatchStream.take_waiting": "does not wait, so its answer would be late",
    "Tables.pause_behind_conflict": "for Tables.run",
    "TableTransaction.command": "for Tables",
    "TableTransaction.end": "for Tables",
    "TableTransaction.upgrade_page": "for Tables",
    "Registrar.run": "for open_registrar",
    "Registrar.end": "for open_registrar",
    "Follower.run": "for open_follower",
    "Follower.copy": "for Registrar",
    "Registry.copy": "for Follower",
    "Registry.slot": "for Edit",
    "Registry.slots": "for Edit",
    "Registry.next_number": "for Edit",
    "Registry.size": "for the metrics of Registrar",
    "Registry.commit": "for Registrar",
    "Registry.of": "for Registrar",
    "Registry.decode_untrusted": "for Registrar",
}
"""Public names without a counterpart, with the reason."""
AWAITED: Final = {
    "VirtualLog.statistics", "VirtualLog.metrics", "Registrar.metrics", "Registrar.changes", "Registry.get", "Registry.items",
    "Registry.count", "Registry.tagged", "TableTransaction.put", "TableTransaction.delete",
}  # fmt: skip
"""Functions that are not async on trio's loop, and are awaited, or entered with `async with`, from another one."""
RESULTS: Final = {
    "VirtualLog.appender": "a session begins with its block",
    "Registrar.changes": "the same items",
}
"""Functions with a result of another type, with the reason."""
DONE_ELSEWHERE: Final = {"AsyncioLog": "VirtualLog"}


def own_name(annotation: object) -> str:
    """An annotation without the names of the asyncio API."""
    text = re.sub(r"\b(\w+)\b", lambda found: DONE_ELSEWHERE.get(found[0], found[0]), str(annotation))
    return re.sub(r"\bAsyncio(\w)", r"\1", text)


def parameters(function: Callable[..., Any]) -> list[tuple[str, object, object, str]]:
    return [
        (
            each.name,
            each.kind,
            each.default if isinstance(each.default, int | str | bytes | tuple) else repr(each.default),
            own_name(each.annotation),
        )
        for each in inspect.signature(function).parameters.values()
    ]


def public_names(kind: type) -> list[str]:
    """Methods and properties, also inherited ones of ours."""
    ours = [each for each in kind.__mro__ if each.__module__.startswith("virtuallog")]
    return sorted({name for each in ours for name in vars(each) if not name.startswith("_")})


MEMBERS: Final = [(kind, name) for kind in CLASSES for name in public_names(kind)]


@pytest.mark.parametrize(("kind", "name"), MEMBERS, ids=[f"{kind.__name__}.{name}" for kind, name in MEMBERS])
def test_methods_have_the_same_signatures(kind: type, name: str) -> None:
    """Names, kinds, defaults and types of all parameters, the result, and whether it is awaited; what differs is listed here."""
    label = f"{kind.__name__}.{name}"
    if label in OMITTED:
        assert name not in public_names(CLASSES[kind])
        return
    assert name in public_names(CLASSES[kind]), f"{label} has no counterpart for asyncio"
    mine, theirs = inspect.getattr_static(kind, name), inspect.getattr_static(CLASSES[kind], name)
    if not inspect.isfunction(mine):
        assert not inspect.isfunction(theirs)
        return
    assert parameters(theirs) == parameters(mine)
    is_awaited = inspect.iscoroutinefunction(mine) or label in AWAITED - {"Registrar.changes"}
    assert inspect.iscoroutinefunction(theirs) == is_awaited
    if label not in RESULTS:
        assert own_name(inspect.signature(theirs).return_annotation) == inspect.signature(mine).return_annotation


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_functions_have_the_same_signatures(function: Callable[..., Any]) -> None:
    """Also of what opens a client, and of State itself."""
    assert parameters(FUNCTIONS[function]) == parameters(function)


def test_differences_are_real() -> None:
    """Each listed difference is one of a function that exists."""
    labels = {f"{kind.__name__}.{name}" for kind, name in MEMBERS}
    assert {*OMITTED, *AWAITED, *RESULTS} <= labels


def test_the_log_for_asyncio_imports_no_database() -> None:
    """A service that appends loads no RocksDB and no server."""
    script = (
        "import sys, virtuallog.aio;"
        " print([name for name in sys.modules if name.split('.')[0] in ('virtuallog_server', 'virtuallog_database', 'rocksdict')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"

"""ZooKeeper's admin pages, /commands/NAME, as a Starlette application: four-letter words for programs that speak HTTP and JSON.

Each answer has the fields `command` (the requested name) and `error` (null, or the reason why there is nothing else). They change
nothing: ZooKeeper's pages that do (stat_reset, set_trace_mask, restore, shed_connections) and those about its snapshot files are
missing here. Use the commands of `virtuallog` and the console of the node instead. Needs the extra `console`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from virtuallog_server.zookeeper.admin.facts import VERSION, ConnectionFacts, Mode, ServerFacts
from virtuallog_server.zookeeper.admin.four_letter_words import monitored

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"


@attrs.frozen
class AdminPages:
    """The pages of one server. Serve `application()` with `virtuallog_server.process.console.http_server.HttpServer`.

    Args:
        facts: returns the present facts about the server.
    """

    _facts: Callable[[], ServerFacts]

    def application(self) -> Starlette:
        routes = [
            Route("/commands", self._index, methods=["GET"]),
            Route("/commands/{name}", self._command, methods=["GET"]),
        ]
        return Starlette(routes=routes)

    async def _index(self, _: Request) -> Response:
        return PlainTextResponse("".join(f"/commands/{name}\n" for name in sorted(_PAGES)))

    async def _command(self, request: Request) -> Response:
        asked = str(request.path_params["name"])
        name = _ALIASES.get(asked, asked)
        if name not in _PAGES:
            return JSONResponse({"command": asked, "error": "Unknown command"}, status_code=404)
        facts = self._facts()
        if not facts.serving and name not in _ALWAYS:
            return JSONResponse({"command": name, "error": NOT_SERVING})
        return JSONResponse({**_PAGES[name](facts), "command": name, "error": None})


def _monitor(facts: ServerFacts) -> Mapping[str, Any]:
    return monitored(facts)


def _stats(facts: ServerFacts) -> Mapping[str, Any]:
    latency = facts.traffic.latency
    return {
        "version": VERSION,
        "read_only": facts.mode is Mode.READ_ONLY,
        "server_stats": {
            "packets_sent": facts.traffic.sent,
            "packets_received": facts.traffic.received,
            "max_latency": latency.most,
            "min_latency": latency.least,
            "avg_latency": latency.mean,
            "num_alive_client_connections": len(facts.traffic.connections),
            "outstanding_requests": facts.traffic.outstanding,
            "server_state": facts.mode.value,
            "last_processed_zxid": facts.zxid,
            "uptime": facts.uptime_ms,
        },
        "node_count": facts.nodes,
        "connections": [_connection(each) for each in facts.traffic.connections],
    }


def _connection(each: ConnectionFacts) -> Mapping[str, Any]:
    return {
        "remote_socket_address": each.address,
        "session_id": each.session,
        "session_timeout": each.timeout_ms,
        "outstanding_requests": each.outstanding,
        "packets_received": each.received,
        "packets_sent": each.sent,
        "established": each.established_ms,
        "last_zxid": each.last_zxid,
        "secure": each.secure,
        "identities": list(each.identities),
    }


def _dump(facts: ServerFacts) -> Mapping[str, Any]:
    by_timeout: dict[str, list[int]] = {}
    for session, timeout_ms in facts.list_sessions().items():
        by_timeout.setdefault(str(timeout_ms), []).append(session)
    ephemerals = {f"{session:#x}": list(paths) for session, paths in facts.list_ephemerals().items()}
    return {"timeout_to_session_ids": by_timeout, "session_id_to_ephemeral_paths": ephemerals}


def _watch_summary(facts: ServerFacts) -> Mapping[str, Any]:
    watches = facts.list_watches()
    return {
        "num_connections": len(watches.paths_of),
        "num_paths": len(watches.sessions_of),
        "num_total_watches": watches.count,
    }


def _sessions(facts: ServerFacts) -> Mapping[str, Any]:
    return {f"{session:#x}": list(paths) for session, paths in facts.list_watches().paths_of.items()}


def _paths(facts: ServerFacts) -> Mapping[str, Any]:
    return {
        path: [f"{session:#x}" for session in holders] for path, holders in facts.list_watches().sessions_of.items()
    }


_PAGES: Final[Mapping[str, Callable[[ServerFacts], Mapping[str, Any]]]] = {
    "ruok": lambda _: {},
    "environment": lambda facts: dict(facts.environment),
    "configuration": lambda facts: {**facts.settings, "server_id": facts.server},
    "is_read_only": lambda facts: {"read_only": facts.mode is Mode.READ_ONLY},
    "leader": lambda facts: {"is_leader": facts.mode is Mode.LEADER},
    "monitor": _monitor,
    "server_stats": _stats,
    "stats": _stats,
    "connections": lambda facts: {"connections": [_connection(each) for each in facts.traffic.connections]},
    "dump": _dump,
    "watch_summary": _watch_summary,
    "watches": lambda facts: {"session_id_to_watched_paths": _sessions(facts)},
    "watches_by_path": lambda facts: {"path_to_session_ids": _paths(facts)},
    "voting_view": lambda facts: {"current_config": list(facts.members)},
}
_ALIASES: Final = {
    "conf": "configuration", "cons": "connections", "envi": "environment", "isro": "is_read_only", "lead": "leader",
    "mntr": "monitor", "srvr": "server_stats", "stat": "stats", "wchs": "watch_summary", "wchc": "watches",
    "wchp": "watches_by_path", "config": "configuration",
}  # fmt: skip
_ALWAYS: Final = frozenset({"ruok", "environment", "configuration", "is_read_only"})

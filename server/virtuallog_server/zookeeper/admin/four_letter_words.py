"""Four-letter words: text for operators and programs that watch a server.

Four raw bytes on the client port, text back, connection closed. A word that the whitelist lacks is refused with ZooKeeper's own
sentence. Some of ZooKeeper's words are missing, as they have no meaning here: `gtmk` and `stmk`, about its trace mask, and `hash`,
its history of digests (ours travel through the log).

The lines are in ZooKeeper's order and spelling, because scripts cut them apart. A list ends after `LISTED_MAX`, with a line for the
number of the rest: a connection without a session may ask, and the cost to the server must be bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import attrs

from virtuallog_server.zookeeper.admin.facts import BUILD, LISTED_MAX, VERSION, ConnectionFacts, Mode, ServerFacts

NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests\n"
ALL_WORDS: Final = "*"
_ALIVE: Final = b"imok"
_LINE: Final = f"Zookeeper version: {VERSION}-{BUILD}\n"


@attrs.frozen
class FourLetterWords:
    """Answers words.

    Args:
        whitelist: the words that are answered; "*" for all.
        facts: returns the present facts about the server.
        reset: resets the counts (`crst`, `srst`).
    """

    _whitelist: Collection[str]
    _facts: Callable[[], ServerFacts]
    _reset: Callable[[], None] = lambda: None

    def is_word(self, prefix: bytes) -> bool:
        """True if the first four bytes of a connection are a word, and not the length of a frame. As a length, all words are beyond
        1.6 GB.
        """
        return prefix in _KNOWN

    def answer(self, word: bytes) -> bytes:
        """The whole answer to a word. The connection is closed after it."""
        name = word.decode("ascii")
        if name not in self._whitelist and ALL_WORDS not in self._whitelist:
            return f"{name} is not executed because it is not in the whitelist.\n".encode()
        if name in _RESETS:
            self._reset()
            return _RESETS[name].encode()
        return _ALIVE if name == "ruok" else _ANSWERS[name](self._facts()).encode()


def _serving(make: Callable[[ServerFacts], str]) -> Callable[[ServerFacts], str]:
    """Wrap a word that needs the tree: while the server takes no requests it says so."""
    return lambda facts: make(facts) if facts.serving else NOT_SERVING


def _isro(facts: ServerFacts) -> str:
    """No newline: clients compare it whole. A server that serves no client is no full server either."""
    if not facts.serving:
        return "null"
    return "ro" if facts.mode is Mode.READ_ONLY else "rw"


def _srvr(facts: ServerFacts) -> str:
    return _LINE + _counters(facts)


def _stat(facts: ServerFacts) -> str:
    found = facts.traffic.connections
    clients = "".join(f" {_client(each)}\n" for each in found[:LISTED_MAX]) + _more(len(found) - LISTED_MAX)
    return f"{_LINE}Clients:\n{clients}\n{_counters(facts)}"


def _counters(facts: ServerFacts) -> str:
    latency = facts.traffic.latency
    return (
        f"Latency min/avg/max: {_number(latency.least)}/{latency.mean:.4g}/{_number(latency.most)}\n"
        f"Received: {facts.traffic.received}\nSent: {facts.traffic.sent}\nConnections: {len(facts.traffic.connections)}\n"
        f"Outstanding: {facts.traffic.outstanding}\nZxid: {facts.zxid:#x}\nMode: {facts.mode.value}\nNode count: {facts.nodes}\n"
    )


def _client(each: ConnectionFacts) -> str:
    counts = f"queued={each.outstanding},recved={each.received},sent={each.sent}"
    return f"/{each.address}[{int(each.session != 0)}]({counts})"


def _cons(facts: ServerFacts) -> str:
    found = facts.traffic.connections
    lines = "".join(f" {_client(each)[:-1]}{_session(each)})\n" for each in found[:LISTED_MAX])
    return lines + _more(len(found) - LISTED_MAX) + "\n"


def _session(each: ConnectionFacts) -> str:
    if not each.session:
        return ""
    return f",sid={each.session:#x},est={each.established_ms},to={each.timeout_ms},lzxid={each.last_zxid:#x}"


def _mntr(facts: ServerFacts) -> str:
    return "".join(f"zk_{key}\t{value}\n" for key, value in monitored(facts).items())


def monitored(facts: ServerFacts) -> Mapping[str, object]:
    """The figures of `mntr` and of the page `monitor`."""
    return {
        "version": f"{VERSION}-{BUILD}",
        "server_state": facts.mode.value,
        "peer_state": "leading - broadcast" if facts.mode is Mode.LEADER else "following - broadcast",
        "avg_latency": round(facts.traffic.latency.mean, 4),
        "min_latency": _number(facts.traffic.latency.least),
        "max_latency": _number(facts.traffic.latency.most),
        "packets_received": facts.traffic.received,
        "packets_sent": facts.traffic.sent,
        "num_alive_connections": len(facts.traffic.connections),
        "outstanding_requests": facts.traffic.outstanding,
        "connection_rejected": facts.traffic.rejected,
        "znode_count": facts.nodes,
        "watch_count": facts.traffic.watches,
        "ephemerals_count": facts.ephemerals,
        "approximate_data_size": facts.data_bytes,
        "global_sessions": facts.sessions,
        "local_sessions": 0,
        "uptime": facts.uptime_ms,
        "last_processed_zxid": facts.zxid,
    }


def _envi(facts: ServerFacts) -> str:
    """One segment of TCP holds all of it: kazoo reads it with one recv."""
    return "Environment:\n" + _pairs({"zookeeper.version": f"{VERSION}-{BUILD}", **facts.environment})


def _conf(facts: ServerFacts) -> str:
    members = "".join(f"{line}\n" for line in facts.members)
    return f"{_pairs(facts.settings)}serverId={facts.server}\n" + (f"membership: \n{members}" if members else "")


def _dump(facts: ServerFacts) -> str:
    """Sessions of the whole cluster: any replica knows them all."""
    sessions, ephemerals = facts.list_sessions(), facts.list_ephemerals()
    timeouts = "".join(f"{timeout_ms}ms:\n\t{session:#x}\n" for session, timeout_ms in sorted(sessions.items()))
    timeouts += _more(facts.sessions - LISTED_MAX)
    holders = _grouped((f"{session:#x}", paths) for session, paths in sorted(ephemerals.items()))
    holders += _more(facts.ephemerals - LISTED_MAX)
    count = max(len(sessions), facts.sessions)
    return f"Sessions ({count}):\n{timeouts}Sessions with Ephemerals ({len(ephemerals)}):\n{holders}"


def _more(count: int) -> str:
    return f"... and {count} more\n" if count > 0 else ""


def _wchs(facts: ServerFacts) -> str:
    watches = facts.list_watches()
    return f"{len(watches.paths_of)} connections watching {len(watches.sessions_of)} paths\nTotal watches:{watches.count}\n"


def _wchc(facts: ServerFacts) -> str:
    watches = facts.list_watches()
    return _grouped((f"{session:#x}", paths) for session, paths in sorted(watches.paths_of.items())) + _more(
        watches.more
    )


def _wchp(facts: ServerFacts) -> str:
    watches = facts.list_watches()
    found = sorted(watches.sessions_of.items())
    return _grouped((path, [f"{session:#x}" for session in sessions]) for path, sessions in found) + _more(watches.more)


def _dirs(facts: ServerFacts) -> str:
    """The size of the log is shown by the console of the node."""
    return f"datadir_size: {facts.data_bytes}\nlogdir_size: 0\n"


def _grouped(groups: Iterable[tuple[str, Iterable[str]]]) -> str:
    return "".join(f"{name}\n" + "".join(f"\t{each}\n" for each in members) for name, members in groups)


def _pairs(pairs: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


def _number(milliseconds: float) -> int:
    return round(milliseconds)


_ANSWERS: Final[Mapping[str, Callable[[ServerFacts], str]]] = {
    "ruok": lambda _: _ALIVE.decode(),
    "isro": _isro,
    "envi": _envi,
    "conf": _conf,
    "srvr": _serving(_srvr),
    "stat": _serving(_stat),
    "cons": _serving(_cons),
    "mntr": _serving(_mntr),
    "dump": _serving(_dump),
    "dirs": _serving(_dirs),
    "wchs": _serving(_wchs),
    "wchc": _serving(_wchc),
    "wchp": _serving(_wchp),
}
_RESETS: Final = {"crst": "Connection stats reset.\n", "srst": "Server stats reset.\n"}
_KNOWN: Final = frozenset(name.encode() for name in (*_ANSWERS, *_RESETS))

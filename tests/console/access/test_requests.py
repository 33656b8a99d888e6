"""Requests over real HTTP, on loopback and inside TLS: a table of caller, request and answer."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import pytest
import trio
from starlette.responses import JSONResponse, Response
from trio.abc import Stream

from tests.console.served import PLAIN, Answer, Owners, Served, all_of, parsed, request, served
from virtuallog.contract.caller_roles import Role
from virtuallog_console.access.admission import Admission, AdmissionLimits
from virtuallog_console.access.application import SECURITY_HEADERS
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.access.routes import ConsoleRequest, ConsoleRoute, RouteGroup
from virtuallog_console.door.payloads import BODY_BYTES_MAX
from virtuallog_console.process import CONNECTIONS_MAX, HEAD_BYTES_MAX

TLS = AccessPolicy(tls=True, hosts=frozenset({"localhost"}), actions=True)
PROXIED = AccessPolicy(proxies=(ipaddress.ip_network("127.0.0.1"),), admins=frozenset({"alice"}), actions=True)


async def act(request: ConsoleRequest) -> Response:
    return JSONResponse({"by": request.caller.name, "as": request.caller.role.name.lower()})


ACTIONS = RouteGroup(
    "actions",
    (
        ConsoleRoute(
            method="POST", path="/v1/act", endpoint=act, role=Role.ADMIN, summary="Act",
            media_types=("application/json",), body_bytes=100, acts=True,
        ),
    ),
)  # fmt: skip
"""A group that changes something, as that of the console's actions."""


@pytest.fixture(scope="module")
def owners(tmp_path_factory: pytest.TempPathFactory) -> Owners:
    return Owners.in_(tmp_path_factory.mktemp("certificates"))


Ask = Callable[[Served], Awaitable[Answer]]
REQUESTS: dict[str, Ask] = {
    "append": lambda one: one.post("/v1/entries", b"entry"),
    "read": lambda one: one.get("/v1/entries"),
    "read one": lambda one: one.get("/v1/entries/0"),
    "log": lambda one: one.get("/v1/log"),
    "description": lambda one: one.get("/v1/openapi.json"),
    "act": lambda one: one.post("/v1/act", b"{}", "application/json"),
    "nothing": lambda one: one.get("/v1/nothing"),
    "another method": lambda one: one.ask("DELETE", "/v1/entries"),
    "a method of no protocol": lambda one: one.ask("BREW", "/v1/log"),
    "another host": lambda one: one.get("/v1/log", Host="attacker.example"),
    "another site appends": lambda one: one.post("/v1/entries", b"x", Origin="https://attacker.example"),
    "another site follows": lambda one: one.get("/v1/tail", Sec_Fetch_Site="cross-site"),
    "a user in a header": lambda one: one.get("/v1/log", X_Forwarded_User="alice"),
    "a form": lambda one: one.post("/v1/entries", b"a=b", "application/x-www-form-urlencoded"),
    "a body for a read": lambda one: one.ask("GET", "/v1/log", b"x"),
}
MAY_USE = {
    "append": 201, "read": 200, "read one": 200, "log": 200, "description": 200, "nothing": 404, "another method": 405,
    "a method of no protocol": 405, "another host": 421, "another site appends": 403, "another site follows": 403,
    "a user in a header": 403, "a form": 415, "a body for a read": 400,
}  # fmt: skip
"""Answers to every caller that may use the console."""


async def answers(one: Served) -> dict[str, int]:
    found = {}
    for name, ask in REQUESTS.items():
        answer = await ask(one)
        found[name] = answer.status
        assert SECURITY_HEADERS.items() <= {name: answer.headers[name.lower()] for name in SECURITY_HEADERS}.items()
        assert answer.headers["cache-control"] == "no-store"
        if answer.status >= 400:
            assert answer.json["remedy"], name
    return found


async def test_callers_on_this_machine() -> None:
    """Without TLS: clients, with `actions` too."""
    async with served(AccessPolicy(actions=True), groups=[ACTIONS]) as one:
        assert await answers(one) == {**MAY_USE, "act": 403}


@pytest.mark.parametrize(
    ("who", "actions", "act"),
    [("client", True, 403), ("admin", True, 200), ("node", True, 200), ("admin", False, 403), ("node", False, 403)],
)
async def test_callers_with_certificates(who: str, actions: bool, act: int, owners: Owners) -> None:
    """Inside TLS: the role of the certificate, unless actions are off."""
    policy = attrs.evolve(TLS, actions=actions)
    async with served(policy, tls=owners.console, groups=[ACTIONS]) as made:
        assert await answers(made.as_(getattr(owners, who))) == {**MAY_USE, "act": act}


@pytest.mark.parametrize(("user", "act", "role"), [("alice", 200, "admin"), ("bob", 403, "client")])
async def test_callers_behind_a_proxy(user: str, act: int, role: str) -> None:
    """Its users have names; those in `admins` are admins."""
    async with served(PROXIED, groups=[ACTIONS]) as one:
        answer = await one.post("/v1/act", b"{}", "application/json", X_Forwarded_User=user)
        assert answer.status == act
        assert (await one.post("/v1/entries", b"x", X_Forwarded_User=user)).status == 201
        assert (await one.get("/v1/log")).status == 401
        assert (await one.get("/v1/log", X_Forwarded_User="")).status == 400
        if act == 200:
            assert answer.json == {"by": user, "as": role}


async def test_tls_lets_in_no_other_caller(owners: Owners) -> None:
    """No certificate, one of another cluster, or no TLS at all: no request is read. The answer to plain HTTP says: use https."""
    async with served(TLS, tls=owners.console) as made:
        bare = ssl.create_default_context(cafile=str(owners.client.authority))
        for one in (attrs.evolve(made, context=bare), made.as_(owners.foreign)):
            with suppress(trio.BrokenResourceError, ssl.SSLError):
                assert await refused(one) == b""
        plain = await refused(made)
        assert plain.startswith(b"HTTP/1.1 400")
        assert b"use https" in plain
        assert (await made.as_(owners.client).get("/v1/log")).status == 200


async def refused(one: Served) -> bytes:
    async with await one.connect() as stream:
        await stream.send_all(request("GET", "/v1/log"))
        return await all_of(stream)


async def test_the_answer_to_a_large_body_arrives() -> None:
    """Though the client is still sending: the rest is read and dropped."""
    async with served() as one:
        answer = await one.post("/v1/entries", b"x" * (BODY_BYTES_MAX + (8 << 20)))

        assert (answer.status, answer.json["limit"]) == (413, BODY_BYTES_MAX)
        assert answer.headers["connection"] == "close"


async def test_a_body_without_a_length_is_bounded_too() -> None:
    """Counted as it comes."""
    async with served() as one:
        head = b"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
        assert (await one.send(head + chunk * 3 + b"0\r\n\r\n")).status == 201
        refused = await one.send(head + chunk * 13 + b"0\r\n\r\n")
        assert (refused.status, refused.json["limit"]) == (413, BODY_BYTES_MAX)


async def test_a_connection_serves_one_request_after_another() -> None:
    """Also after refusals of requests whose bodies have come as a whole."""
    async with served() as one, await one.connect() as stream:
        for number in range(3):
            for path, status in (("/v1/entries", 201), ("/v1/entries?expected_tail=9999", 412)):
                await stream.send_all(request("POST", path, b"%d" % number, {**PLAIN, "Connection": "keep-alive"}))
                assert (await one_answer(stream)).status == status


async def one_answer(stream: Stream) -> Answer:
    """The next response, of a length that is announced."""
    received = b""
    while True:
        received += bytes(await stream.receive_some())
        if b"\r\n\r\n" in received:
            answer = parsed(received)
            if len(answer.body) == int(answer.headers["content-length"]):
                return answer


async def test_requests_sent_at_once_are_answered_in_order() -> None:
    """A client may send the next request before it has the answer to the first."""
    async with served() as one:
        both = request("POST", "/v1/entries", b"a", {**PLAIN, "Connection": "keep-alive"}) + request(
            "GET", "/v1/entries/0"
        )
        async with await one.connect() as stream:
            await stream.send_all(both)
            received = await all_of(stream)

        assert received.count(b"HTTP/1.1 ") == 2
        assert received.endswith(b"a")


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100,
        b"GET /" + b"a" * 2 * HEAD_BYTES_MAX,
        b"GET /v1/log HTTP/1.1\r\n" + b"X: y\r\n" * HEAD_BYTES_MAX,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1/log HTTP/1.1\r\n\r\n",
        b"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET /v1/tail HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: "
        b"dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ],
)
async def test_what_is_no_request_ends_its_connection_only(sent: bytes) -> None:
    """Rubbish, endless heads, two lengths and other protocols are refused; nothing is appended, and the next request is served."""
    async with served() as one:
        async with await one.connect() as stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(sent)
                assert isinstance(stream, trio.SocketStream)
                await stream.send_eof()
            answer = await all_of(stream)

        assert not answer or parsed(answer).status >= 400
        assert (await one.get("/v1/log")).json["tail"] == 0


async def test_a_flood_of_connections_keeps_no_request_out() -> None:
    """Silent connections push each other out. A tail that is open stays, and requests are served."""
    async with served() as one, trio.open_nursery() as nursery:
        tail = await one.connect()
        await tail.send_all(request("GET", "/v1/tail?encoding=text"))
        assert b"200" in bytes(await tail.receive_some())
        silent = [await one.connect() for _ in range(2 * CONNECTIONS_MAX)]
        assert (await one.post("/v1/entries", b"here")).status == 201
        received = b""
        while b"here" not in received:
            part = await tail.receive_some()
            assert part, "the tail was cut"
            received += bytes(part)
        for stream in [*silent, tail]:
            nursery.start_soon(trio.aclose_forcefully, stream)


async def test_an_answer_that_finds_no_room_is_refused_unless_it_tells_of_a_change() -> None:
    """A read may be asked for again. An append has been done, so its answer is sent."""
    async with served(admission=Admission(AdmissionLimits(buffers_bytes=100))) as one:
        assert (await one.post("/v1/entries", b"x" * 100)).status == 201
        assert (await one.get("/v1/entries")).status == 429
        assert (await one.post("/v1/entries", b"x" * 101)).status == 429
        assert (await one.post("/v1/entries", b"")).json["position"] == 1


async def test_a_failure_is_a_problem_too() -> None:
    """A bug of a route ends its request with 500 and says nothing of the inside; the reason is in the log."""

    async def fail(_: ConsoleRequest) -> Response:
        raise ZeroDivisionError("secret")

    route = ConsoleRoute(method="GET", path="/fails", endpoint=fail, role=Role.CLIENT, summary="Fails")
    async with served(groups=[RouteGroup("bad", (route,))]) as one:
        answer = await one.get("/fails")
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert (await one.get("/v1/log")).status == 200

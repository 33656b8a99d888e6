"""Who asks, and what the caller may do: a table of facts and decisions."""

from __future__ import annotations

import ipaddress
from typing import Any

import attrs
import pytest

from virtuallog.contract.caller_roles import Principal, Role
from virtuallog_console.access.core.caller import Caller, Proof, RequestFacts
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.access.core.problem import ProblemError

HERE = ipaddress.ip_network("127.0.0.1")
NET = ipaddress.ip_network("10.1.0.0/16")
OPEN = AccessPolicy(actions=True)
TLS = AccessPolicy(tls=True, hosts=frozenset({"console.example"}), actions=True)
PROXIED = AccessPolicy(proxies=(HERE,), admins=frozenset({"alice"}), hosts=frozenset({"console.example"}), actions=True)
TLS_PROXIED = attrs.evolve(TLS, proxies=(NET,), admins=frozenset({"alice"}))


def owner(role: Role, name: str) -> Principal:
    return Principal(cluster="c", role=role, name=name)


CLIENT, ADMIN, NODE = owner(Role.CLIENT, "app"), owner(Role.ADMIN, "alice"), owner(Role.NODE, "1")


def facts(address: str = "127.0.0.1", **more: Any) -> RequestFacts:
    return RequestFacts(**{"method": "POST", "address": address, "hosts": ("localhost",), **more})


def status_of(decide: Any, *arguments: Any, **more: Any) -> int:
    try:
        decide(*arguments, **more)
    except ProblemError as error:
        return error.problem.status
    return 200


CALLERS: list[tuple[str, AccessPolicy, RequestFacts, Caller | int]] = [
    ("this machine", OPEN, facts(), Caller("loopback", Role.CLIENT, Proof.LOOPBACK)),
    ("this machine, IPv6", OPEN, facts("::1"), Caller("loopback", Role.CLIENT, Proof.LOOPBACK)),
    ("this machine, by setting", attrs.evolve(OPEN, loopback_admin=True), facts(), Caller("loopback", Role.ADMIN, Proof.LOOPBACK)),
    ("another machine, by that setting", attrs.evolve(OPEN, loopback_admin=True), facts("10.1.0.1"), 401),
    ("another machine without TLS, which the listener excludes", OPEN, facts("10.1.0.1"), 401),
    ("an unknown address", OPEN, facts(""), 401),
    ("a header, and no proxy", OPEN, facts(users=("alice",)), 403),
    ("a client's certificate", TLS, facts("10.1.0.1", peer=CLIENT), Caller(str(CLIENT), Role.CLIENT, Proof.CERTIFICATE)),
    ("an admin's certificate", TLS, facts("10.1.0.1", peer=ADMIN), Caller(str(ADMIN), Role.ADMIN, Proof.CERTIFICATE)),
    ("a node's is no more", TLS, facts("10.1.0.1", peer=NODE), Caller(str(NODE), Role.ADMIN, Proof.CERTIFICATE)),
    ("actions are off", attrs.evolve(TLS, actions=False), facts(peer=ADMIN), Caller(str(ADMIN), Role.ADMIN, Proof.CERTIFICATE)),
    ("TLS without a certificate, which TLS excludes", TLS, facts(), 401),
    ("a certificate, and a header of its own", TLS, facts(peer=ADMIN, users=("root",)), 403),
    ("a proxy's user", PROXIED, facts(users=("bob",)), Caller("bob", Role.CLIENT, Proof.PROXY)),
    ("a proxy's admin", PROXIED, facts(users=("alice",)), Caller("alice", Role.ADMIN, Proof.PROXY)),
    ("a proxy's admin, actions off", attrs.evolve(PROXIED, actions=False), facts(users=("alice",)), Caller("alice", Role.ADMIN, Proof.PROXY)),
    ("a proxy that names no user", PROXIED, facts(), 401),
    ("a proxy that passes on a client's header beside its own", PROXIED, facts(users=("alice", "bob")), 400),
    ("an empty name", PROXIED, facts(users=("",)), 400),
    ("a list of names", PROXIED, facts(users=("alice, bob",)), 400),
    ("an endless name", PROXIED, facts(users=("a" * 129,)), 400),
    ("the header from another loopback address", PROXIED, facts("127.0.0.2", users=("alice",)), 403),
    ("the proxy over IPv6", PROXIED, facts("::ffff:127.0.0.1", users=("bob",)), Caller("bob", Role.CLIENT, Proof.PROXY)),
    ("a proxy in a network, inside TLS", TLS_PROXIED, facts("10.1.2.3", peer=CLIENT, users=("alice",)), Caller("alice", Role.ADMIN, Proof.PROXY)),
    ("beside the network", TLS_PROXIED, facts("10.2.2.3", peer=CLIENT, users=("alice",)), 403),
    ("beside the network, with a certificate", TLS_PROXIED, facts("10.2.2.3", peer=CLIENT), Caller(str(CLIENT), Role.CLIENT, Proof.CERTIFICATE)),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "found", "wanted"), [row[1:] for row in CALLERS], ids=[row[0] for row in CALLERS])
def test_callers(policy: AccessPolicy, found: RequestFacts, wanted: Caller | int) -> None:
    """Each request has one caller with one role, or is refused; a header that is not trusted is never passed over."""
    if isinstance(wanted, int):
        assert status_of(policy.identify, found) == wanted
    else:
        assert policy.identify(found) == wanted


HOSTS: list[tuple[AccessPolicy, tuple[str, ...], int]] = [
    (OPEN, ("localhost",), 200),
    (OPEN, ("LOCALHOST:8090",), 200),
    (OPEN, ("127.9.9.9:1",), 200),
    (OPEN, ("[::1]:8090",), 200),
    (OPEN, ("attacker.example",), 421),
    (OPEN, ("localhost.attacker.example",), 421),
    (OPEN, ("localhost", "localhost"), 421),
    (OPEN, (), 421),
    (OPEN, ("",), 421),
    (OPEN, ("console.example",), 421),
    (PROXIED, ("console.example",), 200),
    (TLS, ("console.example:8443",), 200),
    (TLS, ("CONSOLE.example",), 200),
    (TLS, ("localhost",), 421),
    (TLS, ("console.example.attacker.example",), 421),
    (TLS, ("console.example@attacker.example",), 421),
]


@pytest.mark.parametrize(("policy", "hosts", "status"), HOSTS)
def test_hosts(policy: AccessPolicy, hosts: tuple[str, ...], status: int) -> None:
    """A request names this console, exactly once."""
    assert status_of(policy.check_host, facts(hosts=hosts)) == status


ORIGINS: list[tuple[str, dict[str, Any], int, int]] = [
    ("a program", {}, 200, 200),
    ("a page of ours", {"origins": ("http://localhost:8090",), "sites": ("same-origin",)}, 200, 200),
    ("an address that was typed", {"sites": ("none",)}, 200, 200),
    ("a page of another site", {"origins": ("https://attacker.example",), "sites": ("cross-site",)}, 403, 403),
    ("the same, by a browser without Sec-Fetch-Site", {"origins": ("https://attacker.example",)}, 403, 403),
    ("a page of another port of this machine", {"origins": ("http://localhost:9000",), "sites": ("same-site",)}, 403, 403),
    ("a page without an origin", {"origins": ("null",)}, 403, 403),
    ("a form of another site", {"sites": ("cross-site",)}, 403, 403),
    ("our name as a user in another address", {"origins": ("http://localhost:8090@attacker.example",)}, 403, 403),
    ("one of ours and one that is not", {"origins": ("http://localhost:8090", "https://attacker.example")}, 403, 403),
    ("reading, from another site", {"method": "GET", "sites": ("cross-site",)}, 200, 403),
    ("a head, from another site", {"method": "HEAD", "origins": ("https://attacker.example",)}, 200, 403),
]  # fmt: skip


@pytest.mark.parametrize(("more", "once", "always"), [row[1:] for row in ORIGINS], ids=[row[0] for row in ORIGINS])
def test_origins(more: dict[str, Any], once: int, always: int) -> None:
    """Pages of other sites change nothing, and open no stream."""
    found = facts(hosts=("localhost:8090",), **more)

    assert status_of(OPEN.check_origin, found) == once
    assert status_of(OPEN.check_origin, found, always=True) == always


def test_a_page_behind_a_proxy_has_the_origin_of_its_name() -> None:
    """The proxy may call the console by another name than browsers call the proxy."""
    found = facts(hosts=("127.0.0.1:8090",), origins=("https://console.example",), sites=("same-origin",))

    assert status_of(PROXIED.check_origin, found) == 200
    assert status_of(OPEN.check_origin, found) == 403


@pytest.mark.parametrize(("policy", "address", "many"), [
    (OPEN, "127.0.0.1", True), (OPEN, "::1", True), (TLS, "127.0.0.1", False), (PROXIED, "127.0.0.1", True), (TLS_PROXIED, "10.1.0.9", True),
    (TLS_PROXIED, "10.2.0.9", False), (TLS, "", False), (TLS, "not an address", False),
])  # fmt: skip
def test_addresses_of_many_callers(policy: AccessPolicy, address: str, many: bool) -> None:
    """A proxy, and this machine without TLS, may have any number of connections up to that of all."""
    assert policy.is_trusted(address) == many


@pytest.mark.parametrize("actions", [True, False])
@pytest.mark.parametrize(("role", "needed", "status"), [
    (Role.CLIENT, Role.CLIENT, 200), (Role.ADMIN, Role.CLIENT, 200), (Role.CLIENT, Role.ADMIN, 403), (Role.ADMIN, Role.ADMIN, 200),
])  # fmt: skip
def test_roles(role: Role, needed: Role, status: int, actions: bool) -> None:
    """A role may do what the lower ones may. Reading takes no more than the role; acting takes `actions`, too."""
    policy, caller = attrs.evolve(OPEN, actions=actions), Caller("it", role, Proof.PROXY)
    assert status_of(policy.check_role, caller, needed, "GET /tree/sessions") == status
    assert status_of(policy.check_role, caller, needed, "POST /actions/trim", acts=True) == (status if actions else 403)


def test_a_refused_admin_learns_that_actions_are_off() -> None:
    """Else an operator would look for the fault in the certificate."""
    policy = attrs.evolve(TLS, actions=False)
    with pytest.raises(ProblemError) as refused:
        policy.check_role(policy.identify(facts(peer=ADMIN)), Role.ADMIN, "POST /actions/trim", acts=True)

    assert "`actions`, which is false" in refused.value.problem.detail
    assert "set `actions = true`" in refused.value.problem.remedy

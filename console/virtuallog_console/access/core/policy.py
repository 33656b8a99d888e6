"""The access policy of a console, and its decisions about one request. Pure.

Each function returns, or raises `ProblemError` with the answer. `ConsoleApplication` calls them in this order: `check_host`,
`identify`, and for the route that was found `check_origin` and `check_role`.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.caller_roles import Role
from virtuallog_console.access.core.caller import Caller, Proof, RequestFacts
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_server.process.console.host_names import host_name, is_local

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

WRONG_HOST: Final = "wrong-host"
"""Kind of the problem that a request names another host."""
SAFE_METHODS: Final = ("GET", "HEAD")
"""Methods that change nothing. A page of another site may cause such requests, and cannot read the answers."""
_OWN_SITES: Final = ("same-origin", "none")
"""Values of `Sec-Fetch-Site` for requests of our own pages, and of a person: an address typed, a bookmark."""
_USER: Final = re.compile(r"[A-Za-z0-9._@+-]{1,128}")
_ORIGIN: Final = re.compile(r"https?://(?P<host>[^/?#@\s]+)")


@attrs.frozen(kw_only=True)
class AccessPolicy:
    """Settings of a console that say who may do what."""

    tls: bool = False
    """True if connections are inside TLS, with certificates on both sides."""
    hosts: frozenset[str] = frozenset()
    """Names, beside those of loopback without TLS, by which the console may be called."""
    proxies: tuple[Network, ...] = ()
    """Addresses of trusted proxies."""
    proxy_header: str = "X-Forwarded-User"
    """Header in which a proxy names the user."""
    admins: frozenset[str] = frozenset()
    """Users of the proxy with the role `admin`."""
    loopback_admin: bool = False
    """True if callers from this machine, without TLS and without a proxy, have the role `admin`."""
    actions: bool = False
    """False if no caller may change the cluster here. What a role may read is the same in both cases."""

    def is_proxy(self, address: str) -> bool:
        """True if this peer's word about users is believed."""
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self.proxies)

    def is_trusted(self, address: str) -> bool:
        """True for a proxy, and without TLS for this machine: an address that stands for many callers."""
        return self.is_proxy(address) or (not self.tls and is_local(_bracketed(address)))

    def check_host(self, facts: RequestFacts) -> None:
        """Check that the request names this console, so that no other name can be pointed at it (DNS rebinding)."""
        if len(facts.hosts) == 1 and self._is_ours(facts.hosts[0]):
            return
        found = ", ".join(facts.hosts) or "none"
        raise ProblemError(
            Problem(
                status=421,
                kind=WRONG_HOST,
                title="This console has another name",
                detail=f"Host is '{found[:200]}'",
                remedy="use a loopback address, or add the name to `hosts` in console.toml",
            )
        )

    def identify(self, facts: RequestFacts) -> Caller:
        """Find the caller: by its certificate, by the word of a trusted proxy, or as a caller on this machine."""
        if self.is_proxy(facts.address):
            return self._user_of_proxy(facts)
        if facts.users:
            raise ProblemError(
                Problem(
                    status=403,
                    kind="untrusted-proxy",
                    title="The address is not that of a trusted proxy",
                    detail=f"{self.proxy_header} from {facts.address or 'an unknown address'}",
                    remedy="leave the header out, or add the address of the proxy to `proxy` in console.toml",
                )
            )
        if facts.peer is not None:
            return Caller(str(facts.peer), min(facts.peer.role, Role.ADMIN), Proof.CERTIFICATE)
        if not self.tls and is_local(_bracketed(facts.address)):
            role = Role.ADMIN if self.loopback_admin else Role.CLIENT
            return Caller("loopback", role, Proof.LOOPBACK)
        raise ProblemError(_unknown_caller(f"{facts.address or 'an unknown address'} shows no certificate"))

    def check_origin(self, facts: RequestFacts, *, always: bool = False) -> None:
        """Check that no page of another site has caused this request (cross-site request forgery).

        Args:
            facts: of the request.
            always: True to check also requests that change nothing, such as those that stay open.
        """
        if facts.method in SAFE_METHODS and not always:
            return
        foreign = [site for site in facts.sites if site not in _OWN_SITES]
        foreign += [origin for origin in facts.origins if not self._is_own_origin(origin, facts.hosts)]
        if foreign:
            raise ProblemError(
                Problem(
                    status=403,
                    kind="cross-site",
                    title="A page of another site made this request",
                    detail=f"Origin or Sec-Fetch-Site is '{foreign[0][:200]}'",
                    remedy="send the request from a page of this console, or from a program without these headers",
                )
            )

    def check_role(self, caller: Caller, needed: Role, what: str, *, acts: bool = False) -> None:
        """Check that the caller may do this.

        Args:
            caller: of the request.
            needed: the least role.
            what: the route, in words.
            acts: True for a route of actions, which `actions` has to allow as well.
        """
        if caller.role < needed:
            raise ProblemError(
                Problem(
                    status=403,
                    kind="forbidden",
                    title="The caller has not the right",
                    detail=f"{what} needs the role {needed.name.lower()}; the caller is {caller.name}, role {caller.role.name.lower()}",
                    remedy="use a certificate with that role, or ask an operator",
                )
            )
        if acts and not self.actions:
            raise ProblemError(
                Problem(
                    status=403,
                    kind="actions-off",
                    title="Actions are off",
                    detail=f"{what} needs `actions`, which is false in console.toml: this console changes nothing",
                    remedy="set `actions = true` in console.toml, and start the console again; or use the command line",
                )
            )

    def _user_of_proxy(self, facts: RequestFacts) -> Caller:
        if not facts.users:
            raise ProblemError(_unknown_caller(f"the proxy {facts.address} names no user in {self.proxy_header}"))
        if len(facts.users) > 1 or _USER.fullmatch(facts.users[0]) is None:
            raise ProblemError(
                Problem(
                    status=400,
                    kind="malformed-user",
                    title="The proxy's header names no user",
                    detail=f"{self.proxy_header} must have one value of 1 to 128 letters, digits and . _ @ + -",
                    remedy="let the proxy replace the header that clients send, and set it to the user's name",
                )
            )
        user = facts.users[0]
        return Caller(user, Role.ADMIN if user in self.admins else Role.CLIENT, Proof.PROXY)

    def _is_ours(self, host: str) -> bool:
        return (not self.tls and is_local(host)) or (host_name(host) or None) in self.hosts

    def _is_own_origin(self, origin: str, hosts: tuple[str, ...]) -> bool:
        found = _ORIGIN.fullmatch(origin)
        if found is None:  # `null`, for one: a page without an origin
            return False
        return found["host"].lower() in {host.lower() for host in hosts} or host_name(found["host"]) in self.hosts


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _unknown_caller(detail: str) -> Problem:
    return Problem(
        status=401,
        kind="unknown-caller",
        title="The caller is not known",
        detail=detail,
        remedy="show a client certificate of the cluster, or come through a proxy that names the user",
        headers={"WWW-Authenticate": 'virtuallog realm="console"'},
    )

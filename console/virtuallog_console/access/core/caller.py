"""The caller of a request, and the facts of the request that tell. Pure."""

from __future__ import annotations

import enum

import attrs

from virtuallog.contract.caller_roles import Principal, Role


class Proof(enum.Enum):
    """Proof of a caller's name."""

    CERTIFICATE = "certificate"
    """A certificate of the cluster's authority."""
    PROXY = "proxy"
    """The word of a trusted proxy."""
    LOOPBACK = "loopback"
    """A connection from this machine, without TLS. All such callers are one."""


@attrs.frozen
class Caller:
    """A caller that may use the console."""

    name: str
    """The URI of its certificate, the user that the proxy names, or `loopback`."""
    role: Role
    proof: Proof


@attrs.frozen(kw_only=True)
class RequestFacts:
    """Facts of a request that tell where it comes from. Each header with all its values, as a client may send it twice."""

    method: str
    address: str
    """Address of the peer of the connection."""
    peer: Principal | None = None
    """Owner of the peer's verified certificate. None without TLS."""
    hosts: tuple[str, ...] = ()
    """Values of `Host`."""
    origins: tuple[str, ...] = ()
    """Values of `Origin`."""
    sites: tuple[str, ...] = ()
    """Values of `Sec-Fetch-Site`."""
    users: tuple[str, ...] = ()
    """Values of the proxy's header."""

"""Addresses of nodes: `host:port`."""

from __future__ import annotations

import ipaddress

from virtuallog.contract.errors import InvalidSettingError


def split_address(address: str, *, port_min: int = 1) -> tuple[str, int]:
    """Split `host:port` into host and port. An IPv6 host stands in brackets.

    Args:
        address: the address.
        port_min: lowest port. 0 for an address to listen at, where it means any free port.

    Raises:
        InvalidSettingError: not an address.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not port_min <= int(port) < 1 << 16:
        raise InvalidSettingError("address", f"'{address}' is not host:port")
    if not _may_name_a_host(host):
        raise InvalidSettingError("address", f"'{address}' is not host:port: there can be no such host")
    return host.removeprefix("[").removesuffix("]"), int(port)


def refuse_open_address(address: str) -> None:
    """Check an address to listen at without TLS: it must be a loopback address.

    Raises:
        InvalidSettingError: other machines could call there.
    """
    host, _ = split_address(address, port_min=0)
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback:
        reason = "without TLS only loopback addresses are served: nothing would be encrypted, and any client could call"
        raise InvalidSettingError(f"listen {address}", reason)


def _may_name_a_host(host: str) -> bool:
    """True if the resolver would look the name up."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable()

"""Addresses of nodes: `host:port`.                                                                               Pure."""

from __future__ import annotations

from virtuallog.errors import InvalidSettingError


def split_address(address: str, *, port_min: int = 1) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets.

    Args:
        port_min: 0 for an address to listen at, where it is any free port.

    Raises:
        InvalidSettingError: it does not look like that.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not port_min <= int(port) < 1 << 16:
        raise InvalidSettingError("address", f"'{address}' is not host:port")
    if not _may_name_a_host(host):
        raise InvalidSettingError("address", f"'{address}' is not host:port: there can be no such host")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _may_name_a_host(host: str) -> bool:
    """Whether the resolver would look for it."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return host.isprintable()

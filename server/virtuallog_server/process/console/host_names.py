"""Names of hosts in the head of a request. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_HOST: Final = re.compile(r"(?:\[(?P<bracketed>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]*)?")


def host_name(host: str) -> str:
    """The name or address in a `Host`, in lower case, without port and brackets. Empty if it is malformed."""
    parts = _HOST.fullmatch(host)
    return "" if parts is None else str(parts["name"] or parts["bracketed"]).lower()


def is_local(host: str) -> bool:
    """True if a `Host`, with or without a port, names this machine."""
    name = host_name(host)
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

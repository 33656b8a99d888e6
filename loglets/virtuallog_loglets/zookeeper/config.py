"""Config of a ZooKeeperLoglet in the chain: JSON, so that it outlives every binary.

    {"hosts": "10.0.0.1:2181,10.0.0.2:2181", "root": "/virtuallog"}
    {"hosts": "10.0.0.1:2181", "root": "/virtuallog", "loglet": "12.5fe7a0"}      closed, and put back in the place of its archive

Unknown fields are preserved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, MalformedError

ROOT_DEFAULT: Final = "/virtuallog"
SETTINGS: Final = {
    "hosts": "addresses of the ensemble, such as one:2181,two:2181; needed at first",
    "root": f"the znode that loglets are made below; {ROOT_DEFAULT}",
}
"""Settings that an operator may give, with help text."""
_KNOWN: Final = frozenset({*SETTINGS, "loglet"})
_FORBIDDEN: Final = frozenset("/\0 \t\r\n")


@attrs.frozen(kw_only=True)
class ZooKeeperConfig:
    """Location of a loglet's znodes.

    Raises:
        InvalidSettingError: on construction, if the location is impossible.
    """

    hosts: str
    """Addresses of the ZooKeeper servers: host:port,host:port"""
    root: str = ROOT_DEFAULT
    """Parent znode of the loglet, created if missing. It may be shared, also by clusters."""
    loglet: SegmentId | None = None
    """Id in the name of its znode; None if it is that of the segment."""
    others: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of later versions, preserved on encoding."""

    def __attrs_post_init__(self) -> None:
        for host in self.hosts.split(","):
            name, _, port = host.rpartition(":")
            if not name or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise InvalidSettingError("hosts", f"'{host}' is not host:port")
        parts = self.root.split("/")
        # ZooKeeper reserves a tree of its own, and rejects dots as names.
        if parts[0] or len(parts) < 2 or any(_is_no_name(part) for part in parts[1:]) or parts[1] == "zookeeper":
            raise InvalidSettingError("root", f"'{self.root}' is not an absolute path of znodes")

    def encode(self) -> bytes:
        known = {"hosts": self.hosts, "root": self.root}
        if self.loglet is not None:
            known["loglet"] = str(self.loglet)
        return json.dumps({**self.others, **known}, sort_keys=True).encode()


def decode_untrusted(blob: bytes) -> ZooKeeperConfig:
    """Decode the config in `blob`.

    Raises:
        MalformedError: `blob` is not a config of a ZooKeeperLoglet.
    """
    try:
        fields = json.loads(blob)
        others = {name: value for name, value in fields.items() if name not in _KNOWN}
        hosts, root = _text(fields["hosts"]), _text(fields["root"])
        loglet = SegmentId.parse(_text(fields["loglet"])) if "loglet" in fields else None
        return ZooKeeperConfig(hosts=hosts, root=root, loglet=loglet, others=others)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidSettingError) as error:
        raise MalformedError(f"not the config of a loglet in ZooKeeper: {blob[:100]!r}") from error


def plan(settings: Mapping[str, str], previous: bytes | None, hosts_default: str) -> ZooKeeperConfig:
    """Plan a config (see `LogletProvider.plan`). Unset fields stay as they are in the active segment."""
    for name in settings:
        if name not in SETTINGS:
            raise InvalidSettingError(name, f"unknown; a loglet in ZooKeeper has {', '.join(SETTINGS)}")
    former = decode_untrusted(previous) if previous is not None else None
    hosts = settings.get("hosts", former.hosts if former else hosts_default)
    if not hosts:
        raise InvalidSettingError("hosts", "which ZooKeeper? --set hosts=host:port,host:port")
    root = settings.get("root", former.root if former else ROOT_DEFAULT)
    return ZooKeeperConfig(hosts=hosts, root=root, others=former.others if former else {})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _is_no_name(part: str) -> bool:
    return part in {"", ".", ".."} or bool(_FORBIDDEN & set(part)) or not part.isprintable()

"""Hosts of a network of their own, on one machine: network namespaces that hang on a bridge (Linux, root, iproute2).

    vl<pid>-1 .. vl<pid>-3, vl<pid>-client     hosts: an interface eth0 and an address each; nothing else is shared but the disk
    vl<pid>-switch                             the bridge, with one port for each host

Each host has its own kernel stack: a cut is like a pulled cable, silent on either side. One
direction is cut by a neighbour entry that names a missing machine: packets leave, and arrive
nowhere. Neither needs a firewall. The machine's own network is not touched.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs
import click

SUBNET: Final = "10.231.7"
"""Seen in these namespaces only."""
UNKNOWN_HOST: Final = "02:00:00:00:00:01"
"""The address of an interface that does not exist."""
CLONE_NEWNET: Final = 0x40000000
"""Constant of linux/sched.h, for `setns`."""
CLIENT: Final = "client"


@attrs.frozen
class Network:
    """Use `open_network`."""

    hosts: tuple[str, ...]

    def address(self, host: str) -> str:
        """Its IP address."""
        return f"{SUBNET}.{self.hosts.index(host) + 1}"

    def within(self, host: str) -> tuple[str, ...]:
        """Prefix of a command that makes it run on a host."""
        return ("ip", "netns", "exec", _namespace(host))

    def enter(self, host: str) -> None:
        """Let this process, and all threads and children it starts from now on, live on a host; there is no way back."""
        with Path("/run/netns", _namespace(host)).open("rb") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

    def unplug(self, host: str) -> None:
        """Pull its cable."""
        _ip("-n", _namespace("switch"), "link", "set", host, "down")

    def plug(self, host: str) -> None:
        """And put it in again."""
        _ip("-n", _namespace("switch"), "link", "set", host, "up")

    def block(self, sender: str, receiver: str) -> None:
        """Let nothing from one host reach another; the other direction is as it was."""
        where = ("-n", _namespace(sender), "neigh", "replace", self.address(receiver))
        _ip(*where, "lladdr", UNKNOWN_HOST, "dev", "eth0", "nud", "permanent")

    def unblock(self, sender: str, receiver: str) -> None:
        """Undo `block`."""
        _ip("-n", _namespace(sender), "neigh", "del", self.address(receiver), "dev", "eth0")


@contextmanager
def open_network(hosts: Sequence[str]) -> Iterator[Network]:
    """Hosts of these names and a client, for the length of the block.

    Raises:
        ClickException: this machine, or this user, cannot do that; says what is needed.
    """
    _check()
    network = Network((*hosts, CLIENT))
    with ExitStack() as stack:
        for name in ("switch", *network.hosts):
            _ip("netns", "add", _namespace(name))
            stack.callback(_ip, "netns", "del", _namespace(name))
        switch = ("-n", _namespace("switch"), "link")
        _ip(*switch, "add", "bridge", "type", "bridge")
        _ip(*switch, "set", "bridge", "up")
        for name in network.hosts:
            _ip(*switch, "add", name, "type", "veth", "peer", "name", "eth0", "netns", _namespace(name))
            _ip(*switch, "set", name, "master", "bridge", "up")
            _ip("-n", _namespace(name), "address", "add", f"{network.address(name)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", _namespace(name), "link", "set", device, "up")
        yield network


def _check() -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise click.ClickException("network namespaces are needed, which only root can make: run this as root")
    if shutil.which("ip") is None:
        raise click.ClickException("the command 'ip' is missing: install iproute2")


def _namespace(name: str) -> str:
    return f"vl{os.getpid()}-{name}"


def _ip(*arguments: str) -> None:
    """Milliseconds, and rare: short enough to block for."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"ip {' '.join(arguments)}: {done.stderr.strip()}")

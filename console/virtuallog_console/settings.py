"""The settings of a console, and their reader. No other module reads them from a file."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any, Final

import attrs

from virtuallog.contract.address import refuse_open_address
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.process_priority import PRIORITIES
from virtuallog.runtime.toml import FieldError, check_address, read_toml
from virtuallog_console.access.core.policy import AccessPolicy, Network
from virtuallog_console.views.masks import Masks
from virtuallog_loglets.archive.config import check_url

_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_HOST: Final = re.compile(r"[a-z0-9.:-]{1,253}")


@attrs.frozen(kw_only=True)
class ConsoleSettings:
    """The settings of one console: its `console.toml`, or options of `virtuallog console`."""

    cluster: Path = Path("cluster.toml")
    """The `cluster.toml` of the cluster that is served, relative to the folder of the file."""

    listen: str = "127.0.0.1:8090"
    """host:port to listen on. Without `tls` only loopback addresses are accepted; port 0 is any free one."""

    hosts: tuple[str, ...] = ()
    """Host names and addresses, without ports, by which clients call the console. Requests for other names are refused. Needed with
    `tls`; without it loopback names are accepted in any case.
    """

    actions: bool = False
    """True to let callers with the role `admin` change the cluster; then the console's own certificate has to be one of an admin, too. If
    false, every action is refused; what a role may read is the same. Danger: each action appends records to the log, which programs
    that read the log raw have to skip (`virtuallog.audit`).
    """

    archives: str = ""
    """URL below which the action `archive` writes archives, such as "s3://bucket/log". Every node has to reach it. Empty if segments
    cannot be archived from here.
    """

    proxy: tuple[str, ...] = ()
    """Addresses and networks of trusted proxies, such as "127.0.0.1" or "10.1.0.0/16". Each request of theirs must name its user. Danger:
    every program at these addresses can name any user.
    """

    proxy_header: str = "X-Forwarded-User"
    """Header in which a trusted proxy names the user. From other addresses a request with this header is refused."""

    admins: tuple[str, ...] = ()
    """Users of the proxy with the role `admin`; the others have the role `client`. The owner of a certificate has the role that it
    says.
    """

    loopback_admin: bool = False
    """True to give callers from this machine the role `admin`, without TLS. Danger: every program and every user of this machine has it
    then, as they have at nodes without TLS.
    """

    masks: tuple[str, ...] = ()
    """Patterns of paths in the database's tree whose values are never shown, such as "/app/*/password": `*` stands for any characters of
    one name, `**` for any number of names. A mask covers what it matches and everything below.
    """

    priority: str = "low"
    """Share of the processors beside other programs of the machine. `low`, a niceness of 10, is about a tenth if those take all of them:
    pages come, and a node there loses little. `idle` is what others leave (`SCHED_IDLE` of Linux), so that a node loses least, and pages may
    take many seconds. `normal` is the same as others have.
    """

    tls: TlsFiles | None = None
    """The certificate of this console, and the authority that it trusts. Clients show certificates of the same authority. The console
    calls nodes with it as well, if the cluster uses TLS. None if there is no TLS.
    """

    def __attrs_post_init__(self) -> None:
        _check_listen(self.listen, self.tls is not None)
        if self.priority not in PRIORITIES:
            raise FieldError(f"'{self.priority}' is none of {', '.join(PRIORITIES)}", "priority")
        for index, host in enumerate(self.hosts):
            if _HOST.fullmatch(host) is None:
                raise FieldError(f"'{host}' is no host name or address in lower case without a port", "hosts", index)
        if self.tls is not None and not self.hosts:
            raise FieldError("with tls, name the hosts by which clients call the console", "hosts")
        for index, network in enumerate(self.proxy):
            _parse_network(network, index)
        for index, pattern in enumerate(self.masks):
            _check_mask(pattern, index)
        _check_archives(self.archives)
        if _HEADER.fullmatch(self.proxy_header) is None:
            raise FieldError(f"'{self.proxy_header}' is no name of a header", "proxy_header")
        if self.admins and not self.proxy:
            raise FieldError("names users of a proxy, and there is none: set proxy", "admins")
        if self.loopback_admin and self.tls is not None:
            raise FieldError("with tls the role is that of the certificate", "loopback_admin")

    @property
    def policy(self) -> AccessPolicy:
        """The policy of access that follows."""
        return AccessPolicy(
            tls=self.tls is not None,
            hosts=frozenset(self.hosts),
            proxies=tuple(_parse_network(network, index) for index, network in enumerate(self.proxy)),
            proxy_header=self.proxy_header,
            admins=frozenset(self.admins),
            loopback_admin=self.loopback_admin,
            actions=self.actions,
        )

    def with_options(self, **options: Any) -> ConsoleSettings:
        """The settings with these in place of their own; those that are None or empty stay.

        Raises:
            FieldError: an option has no valid value.
        """
        return attrs.evolve(self, **{name: value for name, value in options.items() if value not in (None, (), "")})


def read_console_settings(path: Path) -> ConsoleSettings:
    """Read a `console.toml`. Relative paths in it are relative to its folder.

    Raises:
        InvalidSettingError: the settings are invalid; names file, line and key.
    """
    settings = read_toml(ConsoleSettings, path)
    tls = settings.tls.below(path.parent) if settings.tls else None
    return attrs.evolve(settings, cluster=path.parent / settings.cluster, tls=tls)


def _check_listen(listen: str, tls: bool) -> None:
    if not listen.endswith(":0"):
        check_address(listen, "listen")
    if not tls:
        try:
            refuse_open_address(listen)
        except InvalidSettingError as error:
            raise FieldError(error.reason, "listen") from None


def _check_archives(url: str) -> None:
    try:
        if url:
            check_url(url)
    except InvalidSettingError as error:
        raise FieldError(error.reason, "archives") from None


def _check_mask(pattern: str, index: int) -> None:
    try:
        Masks((pattern,))
    except InvalidSettingError as error:
        raise FieldError(error.reason, "masks", index) from None


def _parse_network(network: str, index: int) -> Network:
    try:
        return ipaddress.ip_network(network)
    except ValueError as error:
        raise FieldError(f"'{network}' is no address and no network: {error}", "proxy", index) from None

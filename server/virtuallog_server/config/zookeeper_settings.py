"""What can be configured about the service for ZooKeeper's clients: the section `[zookeeper]` of a node's config.

Names follow ZooKeeper's own where there are any (zoo.cfg, or the system property), in our spelling and with units.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.toml import FieldError, check_address, toml_key
from virtuallog_database.snapshots.policy import SnapshotSettings

JUTE_BYTES_MIN: Final = 1 << 10
"""With less not even a connect request with a password and a long path would fit."""
EJECT_SECONDS_MIN: Final = 30.0
"""Six times the five seconds after which a server says that it is there: with less, servers that live eject each other."""
COMMANDS: Final = ("srvr", "ruok", "isro")
"""ZooKeeper's own default allows `srvr` alone. The others tell nothing either, and clients ask `isro` by themselves."""


CLIENT_CERTIFICATES: Final = ("need", "want", "none")


@attrs.frozen(kw_only=True)
class SaslUser:
    """One who may log in with SASL DIGEST-MD5: `user_NAME="PASSWORD"` in ZooKeeper's JAAS file."""

    name: str
    password: str = attrs.field(repr=False)
    """In plain text, as the exchange demands: keep the config file to yourself."""


@attrs.frozen(kw_only=True)
class ZooKeeperSettings:
    """A node with this section is a server of the database."""

    listen: str = "127.0.0.1:2181"
    """host:port for clients. Only loopback addresses: connections here are not encrypted. Empty: none. (clientPort)"""

    tls_listen: str = ""
    """host:port for clients that use TLS. Needs `tls`. Empty: none. (secureClientPort)"""

    tls: TlsFiles | None = None
    """The certificate that clients on `tls_listen` are shown, and the authority that vouches for theirs."""

    client_certificates: str = "need"
    """Of clients on `tls_listen`. `need`: each must show one; `want`: one that it shows must be good; `none`: it is not asked.
    (ssl.clientAuth)"""

    admin_listen: str = ""
    """host:port for ZooKeeper's admin pages, /commands/...; loopback only. Empty: none. (admin.serverPort)"""

    commands: tuple[str, ...] = COMMANDS
    """Four-letter words that are answered; "*": all of them. (4lw.commands.whitelist)"""

    tick_ms: int = 1000
    """The unit of the two limits below, in milliseconds. (tickTime)"""

    session_timeout_min_ms: int = 0
    """Shortest timeout that a session gets; 0: two ticks. (minSessionTimeout)"""

    session_timeout_max_ms: int = 0
    """Longest timeout that a session gets; 0: twenty ticks, but at least 40 s. (maxSessionTimeout)"""

    jute_maxbuffer_bytes: int = (1 << 20) - 1
    """The largest request; a connection that sends a larger one is closed. (jute.maxbuffer)"""

    connections_max: int = 4096
    """Of all clients together; one more is closed. (maxCnxns)"""

    connections_per_client_max: int = 0
    """From one address; 0: no limit, as whoever may connect at all is on this machine, or has a certificate. (maxClientCnxns)"""

    outstanding_max: int = 1000
    """Requests of one connection that are being worked on; beyond, no more are read from it."""

    snapshot_log_bytes: int = 64 << 20
    """A snapshot of the database is due after so many bytes of the log; then the log may be trimmed to the one of the server
    that has the oldest. (snapSizeLimitInKb)"""

    snapshot_seconds: float = 600.0
    """Or after so much time, if anything was written since."""

    snapshots_kept: int = 2
    """The newest ones. Only what was changed between them takes room twice. (autopurge.snapRetainCount)"""

    eject_seconds: float = 300.0
    """A server of the database that is silent for so long holds back trims of the log no more: when it comes back it may have to
    copy a snapshot. At least 30."""

    copies: int = 0
    """Servers whose disks have to hold a snapshot before the log is trimmed to it. 0: one more than the lost disks that the log survives
    with a log server on each node, 2 of 3 or 3 of 5. Where fewer nodes than that have a database the log is never trimmed, until this says so."""

    lease: bool = False
    """Whether this server tries to have the lease: linearizable reads of the Python API, at who has it, do not ask the log.
    A `sync` always does. Writes through other servers take twice as long."""

    backup_url: str = ""
    """Where the log is copied to before it is trimmed: a directory that fsspec knows. Empty: this server uploads nothing."""

    compacted_url: str = ""
    """Where `virtuallog spark compact` puts the state of the database: a directory that fsspec knows. A server whose store the log can
    no longer bring up to date begins with the newest compaction there, or with a newer snapshot of another server."""

    read_only: bool = False
    """Whether clients that ask for it may read here while the log cannot be reached. (readonlymode.enabled)"""

    sasl_users: tuple[SaslUser, ...] = attrs.field(default=(), metadata=toml_key("sasl_user"))
    """Who may log in with SASL. None: nobody, and whoever tries is refused."""

    sasl_required: bool = False
    """Whether a connection that has not logged in with SASL may do nothing else. (sessionRequireClientSASLAuth)"""

    superuser_digest: str = ""
    """user:base64(sha1(user:password)) of one who may do everything; empty: nobody may. (DigestAuthenticationProvider.superDigest)"""

    def __attrs_post_init__(self) -> None:
        for name in ("listen", "tls_listen", "admin_listen"):
            if getattr(self, name):
                check_address(getattr(self, name), name)
        if self.tls_listen and self.tls is None:
            raise FieldError("needs [zookeeper.tls], the certificate that clients are shown", "tls_listen")
        if self.client_certificates not in CLIENT_CERTIFICATES:
            reason = f"must be {', '.join(CLIENT_CERTIFICATES)}, not {self.client_certificates!r}"
            raise FieldError(reason, "client_certificates")
        if self.sasl_required and not self.sasl_users:
            raise FieldError("needs a [[zookeeper.sasl_user]]: nobody could log in", "sasl_required")
        if self.tick_ms < 1:
            raise FieldError(f"must be at least 1, not {self.tick_ms}", "tick_ms")
        if self.jute_maxbuffer_bytes < JUTE_BYTES_MIN:
            reason = f"must be at least {JUTE_BYTES_MIN}, not {self.jute_maxbuffer_bytes}"
            raise FieldError(reason, "jute_maxbuffer_bytes")
        for name in ("connections_max", "outstanding_max", "snapshot_log_bytes", "snapshots_kept"):
            if getattr(self, name) < 1:
                raise FieldError(f"must be at least 1, not {getattr(self, name)}", name)
        if not self.snapshot_seconds > 0:
            raise FieldError(f"must be above 0, not {self.snapshot_seconds}", "snapshot_seconds")
        if not self.eject_seconds >= EJECT_SECONDS_MIN:
            raise FieldError(f"must be at least {EJECT_SECONDS_MIN}, not {self.eject_seconds}", "eject_seconds")
        for name in ("session_timeout_min_ms", "session_timeout_max_ms", "connections_per_client_max", "copies"):
            if getattr(self, name) < 0:
                raise FieldError(f"must not be negative, not {getattr(self, name)}", name)
        if self.timeout_min_ms > self.timeout_max_ms:
            reason = f"{self.timeout_min_ms} ms at least and {self.timeout_max_ms} ms at most cannot be"
            raise FieldError(reason, "session_timeout_min_ms")

    @property
    def snapshots(self) -> SnapshotSettings:
        """When the replica takes snapshots, and how many it keeps."""
        return SnapshotSettings(
            log_bytes=self.snapshot_log_bytes, seconds=self.snapshot_seconds, keep=self.snapshots_kept
        )

    def below(self, folder: Path) -> ZooKeeperSettings:
        """The same with relative paths counted from `folder`."""
        return attrs.evolve(self, tls=self.tls.below(folder) if self.tls else None)

    @property
    def serves_clients(self) -> bool:
        """Else there is a replica, and nobody outside of the process uses it."""
        return bool(self.listen or self.tls_listen)

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """Where connections are not encrypted; empty ones are not used."""
        return self.listen, self.admin_listen

    @property
    def timeout_min_ms(self) -> int:
        return self.session_timeout_min_ms or 2 * self.tick_ms

    @property
    def timeout_max_ms(self) -> int:
        return self.session_timeout_max_ms or max(20 * self.tick_ms, 40_000)

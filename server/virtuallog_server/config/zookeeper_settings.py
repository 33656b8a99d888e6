"""Settings of the service for ZooKeeper's clients: the section `[zookeeper]` of a node's config.

Names follow ZooKeeper's own if there are any (zoo.cfg, or the system property), in our spelling and with units.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.toml import FieldError, check_address, toml_key
from virtuallog_database.snapshots.policy import SnapshotSettings

JUTE_BYTES_MIN: Final = 1 << 10
"""Least buffer. A connect request with a password and a long path needs as much."""
EJECT_SECONDS_MIN: Final = 30.0
"""Six times the five seconds between a server's signs of life. With less, live servers would eject each other."""
COMMANDS: Final = ("srvr", "ruok", "isro")
"""ZooKeeper's own default allows `srvr` alone. The others disclose nothing either, and clients ask `isro` by themselves."""


CLIENT_CERTIFICATES: Final = ("need", "want", "none")


@attrs.frozen(kw_only=True)
class SaslUser:
    """A user of SASL DIGEST-MD5: `user_NAME="PASSWORD"` in ZooKeeper's JAAS file."""

    name: str
    password: str = attrs.field(repr=False)
    """In plain text, as the protocol demands: protect the config file."""


@attrs.frozen(kw_only=True)
class ZooKeeperSettings:
    """Settings of a node that is a server of the database."""

    listen: str = "127.0.0.1:2181"
    """host:port for clients. Only loopback addresses: connections here are not encrypted. If empty, no such port. (clientPort)"""

    tls_listen: str = ""
    """host:port for clients that use TLS. Needs `tls`. If empty, no such port. (secureClientPort)"""

    tls: TlsFiles | None = None
    """The certificate for clients on `tls_listen`, and the authority that signs theirs."""

    client_certificates: str = "need"
    """Certificates of clients on `tls_listen`. `need`: each client must show one; `want`: a certificate that it shows must be
    valid; `none`: none is requested. (ssl.clientAuth)
    """

    admin_listen: str = ""
    """host:port for ZooKeeper's admin pages, /commands/...; loopback only. Needs the extra `console`. If empty, no pages.
    (admin.serverPort)
    """

    commands: tuple[str, ...] = COMMANDS
    """Four-letter words that are answered; "*" for all of them. (4lw.commands.whitelist)"""

    tick_ms: int = 1000
    """The unit of the two limits below, in milliseconds. (tickTime)"""

    session_timeout_min_ms: int = 0
    """Shortest timeout of a session, in milliseconds. 0 for two ticks. (minSessionTimeout)"""

    session_timeout_max_ms: int = 0
    """Longest timeout of a session, in milliseconds. 0 for twenty ticks, but at least 40 s. (maxSessionTimeout)"""

    jute_maxbuffer_bytes: int = (1 << 20) - 1
    """Bytes of the largest request. A connection that sends a larger one is closed. (jute.maxbuffer)"""

    connections_max: int = 4096
    """Connections of all clients together. A further one is closed. (maxCnxns)"""

    connections_per_client_max: int = 0
    """Connections from one address. 0 for no limit: every client is on this machine, or has a certificate. (maxClientCnxns)"""

    outstanding_max: int = 1000
    """Requests of one connection in progress. Beyond that the connection is not read."""

    snapshot_log_bytes: int = 64 << 20
    """Bytes of the log after which a snapshot of the database is due. Then the log may be trimmed to the oldest of all servers'
    snapshots. (snapSizeLimitInKb)
    """

    snapshot_seconds: float = 600.0
    """Seconds after which a snapshot is due, if anything was written since the last one."""

    snapshots_kept: int = 2
    """Number of snapshots to keep. Only the changes between them need space twice. (autopurge.snapRetainCount)"""

    eject_seconds: float = 300.0
    """Seconds of silence after which a server of the database no longer holds back trims of the log. When it returns, it may have
    to copy a snapshot. At least 30.
    """

    copies: int = 0
    """Servers that must hold a snapshot on disk before the log is trimmed to it. 0 for one more than the lost disks that the log
    survives with a log server on each node: 2 of 3, or 3 of 5. If fewer nodes have a database, the log is not trimmed until
    this number allows it.
    """

    lease: bool = False
    """True if this server tries to get the lease. Its holder serves linearizable reads of the Python API without the log; a `sync`
    always asks the log. Writes through other servers take twice as long.
    """

    backup_url: str = ""
    """Destination to which the log is copied before it is trimmed: a directory that fsspec knows. If empty, this server uploads
    nothing.
    """

    compacted_url: str = ""
    """Place of the states that `virtuallog spark compact` writes: a directory that fsspec knows. A server that the log can no longer
    bring up to date begins with the newest compaction there, or with a newer snapshot of another server.
    """

    read_only: bool = False
    """True if clients that ask for it may read here while the log cannot be reached. (readonlymode.enabled)"""

    sasl_users: tuple[SaslUser, ...] = attrs.field(default=(), metadata=toml_key("sasl_user"))
    """Users that may log in with SASL. If empty, every attempt is refused."""

    sasl_required: bool = False
    """True if a connection must log in with SASL before anything else. (sessionRequireClientSASLAuth)"""

    superuser_digest: str = ""
    """user:base64(sha1(user:password)) of the superuser, which passes all ACLs. If empty, there is none.
    (DigestAuthenticationProvider.superDigest)
    """

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
            raise FieldError("needs a [[zookeeper.sasl_user]]: no client could log in", "sasl_required")
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
        """Times at which the replica takes snapshots, and the number that it keeps."""
        return SnapshotSettings(
            log_bytes=self.snapshot_log_bytes, seconds=self.snapshot_seconds, keep=self.snapshots_kept
        )

    def below(self, folder: Path) -> ZooKeeperSettings:
        """The same settings, with relative paths counted from `folder`."""
        return attrs.evolve(self, tls=self.tls.below(folder) if self.tls else None)

    @property
    def serves_clients(self) -> bool:
        """False if there is only a replica, for use inside this process."""
        return bool(self.client_address)

    @property
    def client_address(self) -> str:
        """host:port for clients on /zookeeper/config. That with TLS if there is one: the other one is for this machine only."""
        return self.tls_listen or self.listen

    @property
    def open_addresses(self) -> tuple[str, ...]:
        """Addresses without encryption. Some may be empty: those are not used."""
        return self.listen, self.admin_listen

    @property
    def timeout_min_ms(self) -> int:
        return self.session_timeout_min_ms or 2 * self.tick_ms

    @property
    def timeout_max_ms(self) -> int:
        return self.session_timeout_max_ms or max(20 * self.tick_ms, 40_000)

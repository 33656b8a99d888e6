"""Certificates of a cluster: an authority of its own, and certificates that it signs.

DIR/authority.pem, authority.key      with this key one can be every node and admin: keep it off the nodes
DIR/node-N.pem, node-N.key            of node N
DIR/client-NAME.pem, client-NAME.key  of a client; likewise admin-NAME

For operators without an authority. Certificates of another one work as well: docs/howto/secure.md says what must be in them.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.file_errors import file_errors

DAYS: Final = 365
"""Days for which a certificate is valid: operators must practise renewal once a year."""
AUTHORITY_DAYS: Final = 3650
_EARLIER: Final = datetime.timedelta(hours=1)
"""Certificates begin this much earlier: with clocks that differ, a new one must not be in the future elsewhere."""


@attrs.frozen
class Authority:
    """An authority with its certificate and key. `open` loads one, `create` makes one."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, folder: Path, cluster: str) -> Authority:
        """Make an authority in `folder`.

        Raises:
            StorageError: it cannot be written.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"virtuallog {cluster} authority")])
        builder = _builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        made = cls(folder, builder.sign(key, hashes.SHA256()), key)
        made.write("authority", made.certificate, key)
        return made

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Load the authority in `folder`.

        Raises:
            StorageError: it cannot be read.
            InvalidSettingError: the files are no authority.
        """
        with file_errors(folder):
            certificate, key = (folder / "authority.pem").read_bytes(), (folder / "authority.key").read_bytes()
        try:
            private = serialization.load_pem_private_key(key, password=None)
            assert isinstance(private, ec.EllipticCurvePrivateKey)
            return cls(folder, x509.load_pem_x509_certificate(certificate), private)
        except (ValueError, TypeError, AssertionError) as error:
            raise InvalidSettingError(str(folder), f"holds no authority of ours: {error}") from error

    def issue(self, owner: Principal, days: float = DAYS, hosts: Sequence[str] = ()) -> TlsFiles:
        """Make a key and certificate for `owner`, in place of earlier ones.

        Args:
            owner: the owner.
            days: days for which it is valid.
            hosts: host names and addresses at which the owner serves browsers, which check them. Nodes do not.

        Raises:
            StorageError: they cannot be written.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stem(owner))])
        builder = _builder(name, self.certificate.subject, key.public_key(), days)
        names = [x509.UniformResourceIdentifier(str(owner)), *map(_host, hosts)]
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(_purposes(owner, bool(hosts))), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        self.write(stem(owner), builder.add_extension(issuer, critical=False).sign(self.key, hashes.SHA256()), key)
        return files_of(self.folder, owner)

    def write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        """Replace each file in one step. A node that reads them between the two steps keeps its former ones."""
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = certificate.public_bytes(serialization.Encoding.PEM)
        with file_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for suffix, content, mode in ((".key", private, 0o600), (".pem", public, 0o644)):
                new = self.folder / f"{name}{suffix}.new"
                new.unlink(missing_ok=True)
                with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:  # noqa: PTH123
                    file.write(content)
                new.replace(self.folder / f"{name}{suffix}")


def certify(
    folder: Path,
    owners: Iterable[Principal],
    *,
    days: float = DAYS,
    renew: bool = False,
    hosts: Mapping[str, Sequence[str]] | None = None,
) -> list[TlsFiles]:
    """Make the certificates for `owners` that `folder` lacks, and an authority if there is none. Return the files of each owner.

    Args:
        folder: the folder of all files.
        owners: the owners, all of one cluster; at least one.
        days: days for which new certificates are valid.
        renew: make new ones for all owners. The authority stays.
        hosts: by name of a client or an admin, the hosts at which it serves browsers. None: none of them serves.

    Raises:
        StorageError: `folder` cannot be read or written.
        InvalidSettingError: it holds an authority of another kind.
    """
    wanted, served = list(owners), hosts or {}
    known = (folder / "authority.pem").exists()
    authority = Authority.open(folder) if known else Authority.create(folder, wanted[0].cluster)
    return [
        authority.issue(owner, days, served.get(owner.name, ()) if owner.node is None else ())
        if renew or not files.certificate.exists()
        else files
        for owner in wanted
        for files in (files_of(folder, owner),)
    ]


def stem(owner: Principal) -> str:
    """Common part of the owner's file names."""
    return f"{owner.role.name.lower()}-{owner.name}"


def files_of(folder: Path, owner: Principal) -> TlsFiles:
    """The files that `issue` writes."""
    name = stem(owner)
    return TlsFiles(certificate=folder / f"{name}.pem", key=folder / f"{name}.key", authority=folder / "authority.pem")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.fromtimestamp(SystemClock().wall(), datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _purposes(owner: Principal, serves: bool) -> Iterable[x509.ObjectIdentifier]:
    """Purposes of a certificate. Nodes call and are called; a client without hosts never is, and OpenSSL enforces that."""
    client = [ExtendedKeyUsageOID.CLIENT_AUTH]
    return [*client, ExtendedKeyUsageOID.SERVER_AUTH] if serves or owner.node is not None else client


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

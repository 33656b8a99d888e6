"""TLS for ZooKeeper's clients: the port for it (secureClientPort), and what a certificate says about a client.

Clients of a database are strangers to the cluster: their certificates name no node and no role of ours, and the authority that
vouches for them is usually another one. So nothing is shared with the cluster's own TLS but the stream. A client's subject, as RFC
4514 spells it (`CN=app,O=Example`), becomes its identity of the scheme x509, for ACLs.

TLS 1.2 is taken as well: Java 8, on which many clients of ZooKeeper run, may know nothing later.
"""

from __future__ import annotations

import ssl
from typing import Final

import attrs
import structlog
from trio.abc import Stream

from virtuallog.contract.errors import InvalidSettingError, UntrustedError
from virtuallog.rpc.security.credentials import Stamp, load_files, stamp_of
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.security.tls_stream import EncryptedStream, encrypt

_VERIFICATION: Final = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}

log = structlog.get_logger(__name__)


@attrs.define(eq=False)
class ClientSecurity:
    """The server's certificate, and what it asks of clients. Reads the files again when they have changed; ones that cannot be
    used are reported, and the former stay in use."""

    files: TlsFiles
    _certificates: str
    _context: ssl.SSLContext
    _stamp: Stamp

    @classmethod
    def open(cls, files: TlsFiles, certificates: str) -> ClientSecurity:
        """Read the files.

        Args:
            files: our certificate and key, and who vouches for clients.
            certificates: `need`: a client must show one; `want`: one that it shows must be good; `none`: it is not asked.

        Raises:
            InvalidSettingError: they cannot be used.
        """
        stamp = stamp_of(files)
        return cls(files, certificates, _context(files, certificates), stamp)

    async def secure(self, stream: Stream) -> tuple[EncryptedStream, str]:
        """Shake hands with a client. Bounding the time is the caller's part, and closing the stream after an error.

        Returns:
            the stream to go on with, and the subject of the client's certificate; empty: it has shown none.

        Raises:
            UntrustedError: no TLS, or not the certificate that is asked for.
            OSError, trio.BrokenResourceError: the connection broke.
        """
        secured = await encrypt(stream, self._current(), server_side=True)
        return secured, _subject_untrusted(secured.certificate)

    def _current(self) -> ssl.SSLContext:
        stamp = stamp_of(self.files)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = _context(self.files, self._certificates)
            except InvalidSettingError as error:
                log.warning("new certificates for clients cannot be used, the old ones stay", reason=str(error))
        return self._context


def _subject_untrusted(certificate: bytes | None) -> str:
    if certificate is None:
        return ""
    from cryptography import x509  # its library is large, and few servers meet a certificate

    try:
        return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError as error:  # an authority may vouch for anything
        raise UntrustedError(f"its certificate cannot be read: {error}") from error


def _context(files: TlsFiles, certificates: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFICATION[certificates]
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # sessions are not resumed: connections last
    load_files(context, files)
    return context

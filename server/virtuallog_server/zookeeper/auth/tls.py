"""TLS for ZooKeeper's clients: the context of their port (secureClientPort), and the identity in a client's certificate.

Clients of a database are foreign to the cluster: their certificates name no node and no role of ours, and another authority
usually signs them. So only the stream is shared with the cluster's own TLS. A client's subject, as RFC 4514 spells it
(`CN=app,O=Example`), becomes its identity of the scheme x509, for ACLs.

TLS 1.2 is accepted as well: Java 8, on which many clients of ZooKeeper run, may know nothing later.
"""

from __future__ import annotations

import ssl
from typing import Final

import attrs
from trio.abc import Stream

from virtuallog.contract.errors import InvalidSettingError, UntrustedError
from virtuallog.rpc.security.credentials import Stamp, load_files, stamp_of
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.rpc.security.tls_stream import EncryptedStream, encrypt
from virtuallog.runtime import log

_VERIFICATION: Final = {"need": ssl.CERT_REQUIRED, "want": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


@attrs.define(eq=False)
class ClientSecurity:
    """The server's certificate, and its demands on clients. Files that have changed are read again; unusable ones are reported, and
    the former stay in use.
    """

    files: TlsFiles
    _certificates: str
    _context: ssl.SSLContext
    _stamp: Stamp

    @classmethod
    def open(cls, files: TlsFiles, certificates: str) -> ClientSecurity:
        """Read the files.

        Args:
            files: our certificate and key, and the authority of clients' certificates.
            certificates: `need`: a client must show one; `want`: one that it shows must be valid; `none`: none is requested.

        Raises:
            InvalidSettingError: they cannot be used.
        """
        stamp = stamp_of(files)
        return cls(files, certificates, _context(files, certificates), stamp)

    async def secure(self, stream: Stream) -> tuple[EncryptedStream, str]:
        """Shake hands with a client. The caller bounds the time, and closes the stream after an error.

        Returns:
            the encrypted stream, and the subject of the client's certificate; empty if it has shown none.

        Raises:
            UntrustedError: no TLS, or not the required certificate.
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
    from cryptography import x509  # late: its library is large, and few servers meet a certificate

    try:
        return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError as error:  # an authority may sign anything
        raise UntrustedError(f"its certificate cannot be read: {error}") from error


def _context(files: TlsFiles, certificates: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFICATION[certificates]
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # sessions are not resumed: connections last
    load_files(context, files)
    return context

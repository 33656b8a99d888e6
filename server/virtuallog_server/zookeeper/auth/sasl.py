"""SASL DIGEST-MD5, the server's side: a user proves a password without sending it (RFC 2831).

    client                                  server
      empty token              ------>
                               <------      challenge: realm, nonce, qop="auth"
      username, nonce, cnonce,
      response                 ------>
                               <------      rspauth: the server knows the password, too

ZooKeeper's form of it: service `zookeeper`, host and realm `zk-sasl-md5` on all servers, one exchange per connection, right after
the handshake. Users and passwords are in the settings, as in the JAAS file of ZooKeeper's DigestLoginModule.

Only `qop=auth`: TLS gives better what the others promise. MD5 is weak today; this is here because clients of ZooKeeper know it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog_database.tree.commands import Identity
from virtuallog_server.zookeeper.auth.schemes import AuthenticationError

REALM: Final = "zk-sasl-md5"
TOKEN_BYTES_MAX: Final = 4096
"""Most bytes of a client's token. Honest ones have some 300."""
_PAIR: Final = re.compile(r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))\s*(?:,|$)')
_ESCAPED: Final = re.compile(r"\\(.)")


@attrs.define(eq=False)
class SaslExchange:
    """One connection's login."""

    _users: Mapping[str, str] = attrs.field(repr=False)
    """Passwords by user."""
    _nonce: str
    """Random, drawn for this exchange."""
    user: Identity | None = attrs.field(default=None, init=False)
    """The user that has logged in. None before that."""
    _challenged: bool = attrs.field(default=False, init=False)

    def respond(self, token: bytes) -> bytes:
        """Answer a token of the client. `user` is set once the login is complete.

        Raises:
            AuthenticationError: the exchange has failed, for good. It does not say if user or password was wrong.
        """
        if len(token) > TOKEN_BYTES_MAX or self.user is not None or not self._users:
            raise AuthenticationError(
                "unexpected token: it is too long, the login is complete, or no users are configured"
            )
        if not self._challenged:
            return self._challenge(token)
        return self._verify(_parse_untrusted(token))

    def _challenge(self, token: bytes) -> bytes:
        if token:
            raise AuthenticationError("DIGEST-MD5 begins with an empty token")
        self._challenged = True
        return f'realm="{REALM}",nonce="{self._nonce}",qop="auth",charset=utf-8,algorithm=md5-sess'.encode()

    def _verify(self, said: Mapping[str, str]) -> bytes:
        name = said.get("username", "")
        password = self._users.get(name)
        # An unknown user takes as long as a known one.
        response = Proof(said, self._nonce if password is None else password)
        fits = hmac.compare_digest(response.of("AUTHENTICATE").encode(), said.get("response", "").encode())
        if (
            not fits
            or password is None
            or said.get("nonce") != self._nonce
            or said.get("nc") != "00000001"  # a nonce is good for one login
            or said.get("qop", "auth") != "auth"
            or said.get("realm", "") != REALM
        ):
            self._users = {}
            raise AuthenticationError("wrong user or password")
        self.user = Identity("sasl", name)
        return f"rspauth={response.of('')}".encode()


@attrs.frozen
class Proof:
    """Proof of a password (section 2.1.2.1 of the RFC, md5-sess)."""

    _said: Mapping[str, str]
    """The pairs of the client's token."""
    _password: str = attrs.field(repr=False)

    def of(self, method: str) -> str:
        """The value of `response` for method AUTHENTICATE, of `rspauth` for an empty one."""
        said = self._said
        owner = _md5(f"{said.get('username', '')}:{said.get('realm', '')}:{self._password}".encode())
        first = [owner, said.get("nonce", "").encode(), said.get("cnonce", "").encode()]
        if said.get("authzid"):
            first.append(said["authzid"].encode())
        second = f"{method}:{said.get('digest-uri', '')}".encode()
        middle = ":".join(said.get(key, "") for key in ("nonce", "nc", "cnonce"))
        return _md5(f"{_md5(b':'.join(first)).hex()}:{middle}:auth:{_md5(second).hex()}".encode()).hex()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _parse_untrusted(token: bytes) -> Mapping[str, str]:
    """Parse comma-separated pairs, each key once."""
    try:
        text = token.decode()
    except UnicodeDecodeError as error:
        raise AuthenticationError("a token that is no UTF-8") from error
    pairs, at = {}, 0
    while at < len(text):
        found = _PAIR.match(text, at)
        if found is None or found[1].lower() in pairs:
            raise AuthenticationError("a token that is not well formed")
        pairs[found[1].lower()] = _ESCAPED.sub(r"\1", found[2]) if found[2] is not None else found[3]
        at = found.end()
    return pairs

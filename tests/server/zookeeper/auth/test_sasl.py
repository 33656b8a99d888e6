"""SASL DIGEST-MD5 against the numbers of its RFC, and against clients that lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_database.tree.commands import Identity
from virtuallog_server.zookeeper.auth.sasl import REALM, Proof, SaslExchange
from virtuallog_server.zookeeper.auth.schemes import AuthenticationError

NONCE = "5ca1ab1e"
USERS = {"ben": 'pass"word', "eve": "other"}


def said_by(user: str, password: str, **changes: str) -> dict[str, str]:
    said = {
        "username": user, "realm": REALM, "nonce": NONCE, "cnonce": "c0ffee", "nc": "00000001", "qop": "auth",
        "digest-uri": f"zookeeper/{REALM}",
    } | changes  # fmt: skip
    return {"response": Proof(said, password).of("AUTHENTICATE")} | said


def spell(said: dict[str, str]) -> bytes:
    quoted = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in said.items()}
    return ",".join(f'{key}="{value}"' for key, value in quoted.items()).encode()


def challenged() -> SaslExchange:
    exchange = SaslExchange(USERS, NONCE)
    exchange.respond(b"")
    return exchange


def test_the_example_of_the_rfc() -> None:
    """RFC 2831, section 4: both proofs, as they stand there."""
    said = {
        "username": "chris", "realm": "elwood.innosoft.com", "nonce": "OA6MG9tEQGm2hh", "nc": "00000001",
        "cnonce": "OA6MHXh6VqTrRk", "digest-uri": "imap/elwood.innosoft.com", "qop": "auth",
    }  # fmt: skip
    proof = Proof(said, "secret")

    assert proof.of("AUTHENTICATE") == "d388dad90d4bbd760a152321f2143af7"
    assert proof.of("") == "ea40f60335c427b5527b84dbabcdfffd"


def test_a_user_logs_in_and_learns_that_the_server_knows_the_password() -> None:
    """An empty token, the challenge, the proof, the server's own proof."""
    exchange = SaslExchange(USERS, NONCE)
    assert f'nonce="{NONCE}"'.encode() in exchange.respond(b"")
    assert exchange.user is None
    said = said_by("ben", USERS["ben"])

    assert exchange.respond(spell(said)) == f"rspauth={Proof(said, USERS['ben']).of('')}".encode()
    assert exchange.user == Identity("sasl", "ben")


@pytest.mark.parametrize(
    "said",
    [
        said_by("ben", "wrong"),
        said_by("mallory", USERS["ben"]),
        said_by("ben", USERS["ben"], nonce="another"),
        said_by("ben", USERS["ben"], nc="00000002"),
        said_by("ben", USERS["ben"], realm="elsewhere"),
        said_by("ben", USERS["ben"]) | {"qop": "auth-conf"},
        {},
    ],
)
def test_whoever_does_not_know_the_password_is_refused_for_good(said: dict[str, str]) -> None:
    """Nor does a second attempt on the same connection help, with the knowledge from the first."""
    exchange = challenged()
    with pytest.raises(AuthenticationError):
        exchange.respond(spell(said))
    assert exchange.user is None
    with pytest.raises(AuthenticationError):
        exchange.respond(spell(said_by("ben", USERS["ben"])))


def test_a_proof_is_good_for_one_connection() -> None:
    """An eavesdropper can reuse nothing elsewhere: the nonce is another one."""
    replayed = SaslExchange(USERS, "another nonce")
    replayed.respond(b"")
    with pytest.raises(AuthenticationError):
        replayed.respond(spell(said_by("ben", USERS["ben"])))


def test_without_users_nobody_logs_in() -> None:
    """There is no challenge either: a client must not be led to offer a proof that nothing could be compared with."""
    with pytest.raises(AuthenticationError):
        SaslExchange({}, NONCE).respond(b"")


@given(st.binary(max_size=200) | st.text(alphabet='a="\\, ', max_size=60).map(str.encode))
def test_no_token_does_more_than_fail(token: bytes) -> None:
    """Bytes of strangers end in a refusal, never in another error."""
    exchange = challenged()
    with pytest.raises(AuthenticationError):
        exchange.respond(token)
    assert exchange.user is None

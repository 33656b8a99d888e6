"""Identities of a connection: by auth packets and by the connection itself."""

from __future__ import annotations

import pytest

from tests.interop.node import SUPER as SUPER_DIGEST
from virtuallog_database.tree.commands import Identity
from virtuallog_server.zookeeper.auth.schemes import (
    IDENTITIES_CHARACTERS_MAX,
    IDENTITIES_MAX,
    SUPER,
    Authentication,
    AuthenticationError,
    digest_of,
    users_of,
)

HERE = Identity("ip", "127.0.0.1")


def test_a_digest_is_what_zookeeper_makes_of_user_and_password() -> None:
    """kazoo's suite names its super user by this digest of `super:test`, computed by ZooKeeper."""
    assert digest_of("super:test") == SUPER_DIGEST


def test_a_connection_is_its_address_and_its_certificate_before_it_says_anything() -> None:
    """An address of a TCP connection cannot be forged once it is open; a subject has been verified."""
    authentication = Authentication()

    assert authentication.greet("127.0.0.1") == (HERE,)
    assert authentication.greet("10.0.0.1", "CN=app") == (Identity("ip", "10.0.0.1"), Identity("x509", "CN=app"))
    assert authentication.greet("") == ()


def test_digests_add_up_and_each_is_there_once() -> None:
    """A client sends all that it has, again after each reconnect."""
    authentication = Authentication()
    known = authentication.greet("127.0.0.1")
    for credential in (b"ben:hi", b"eve:ho", b"ben:hi"):
        known = authentication.authenticate(known, "digest", credential)

    assert known == (HERE, Identity("digest", digest_of("ben:hi")), Identity("digest", digest_of("eve:ho")))


def test_nobody_is_more_than_a_bounded_crowd() -> None:
    """All that a connection is travels with each of its commands, and is compared with each ACL: it may not grow for ever."""
    authentication = Authentication()
    known = authentication.greet("127.0.0.1")
    for number in range(IDENTITIES_MAX - 1):
        known = authentication.authenticate(known, "digest", f"user{number}:password".encode())
    assert authentication.authenticate(known, "digest", b"user1:password") == known
    with pytest.raises(AuthenticationError):
        authentication.authenticate(known, "digest", b"another:password")


def test_a_long_name_does_not_travel_with_each_command() -> None:
    """A request of 22 bytes took 65,000 bytes of the log, for an identity with such a long name. A certificate's long subject
    does not matter to packets that add nothing to it.
    """
    authentication = Authentication()
    known = authentication.greet("127.0.0.1")
    most = IDENTITIES_CHARACTERS_MAX - sum(len(each.scheme + each.id) for each in known) - len("digest") - 29
    longest = authentication.authenticate(known, "digest", b"u" * most + b":password")
    assert authentication.authenticate(longest, "digest", b"u" * most + b":password") == longest
    with pytest.raises(AuthenticationError):
        authentication.authenticate(known, "digest", b"u" * (most + 1) + b":password")
    subject = authentication.greet("127.0.0.1", "CN=" + "x" * IDENTITIES_CHARACTERS_MAX)
    assert authentication.authenticate(subject, "x509", b"") == subject


def test_the_super_user_is_whom_the_settings_name() -> None:
    """With another password, or without a digest in the settings, it is an ordinary user."""
    named = Authentication(SUPER_DIGEST)

    assert SUPER in named.authenticate((), "digest", b"super:test")
    assert SUPER not in named.authenticate((), "digest", b"super:other")
    assert SUPER not in Authentication().authenticate((), "digest", b"super:test")
    assert SUPER not in Authentication().authenticate((), "digest", b"")


@pytest.mark.parametrize(
    ("scheme", "credential"),
    [
        ("world", b"anyone"),
        ("super", b""),
        ("auth", b""),
        ("sasl", b"ben"),
        ("x509", b"CN=app"),
        ("", b""),
        ("digest", b"\xff"),
    ],
)
def test_nobody_becomes_somebody_by_saying_so(scheme: str, credential: bytes) -> None:
    """Schemes that are proved elsewhere, and unknown ones, are refused."""
    with pytest.raises(AuthenticationError):
        Authentication(SUPER_DIGEST).authenticate((HERE,), scheme, credential)


def test_what_is_known_already_may_be_said_again() -> None:
    """ZooKeeper answers an auth packet of scheme ip with yes, and nothing changes."""
    assert Authentication().authenticate((HERE,), "ip", b"10.0.0.1") == (HERE,)


def test_whoami_tells_no_hashes() -> None:
    """A user knows its password; a reader of its logs should not learn what opens its znodes elsewhere."""
    known = Authentication(SUPER_DIGEST).authenticate((HERE,), "digest", b"super:test")

    assert users_of(known) == [Identity("digest", "super"), HERE, SUPER]

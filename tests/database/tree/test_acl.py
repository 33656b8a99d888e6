"""Rights, as ZooKeeper 3.8 checks them."""

from __future__ import annotations

import pytest

from tests.database.tree.world import IP, World
from virtuallog_database.tree.acl import ENTRIES_MAX, allows, masked, settled
from virtuallog_database.tree.commands import (
    OPEN_ACL,
    Acl,
    Check,
    Create,
    Delete,
    Identity,
    Multi,
    Origin,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.results import Error, RefusedError

ALICE = Identity("digest", "alice:hash")
SUPER = Identity("super", "")


def only(permissions: int, identity: Identity = ALICE) -> tuple[Acl, ...]:
    return (Acl(permissions, identity.scheme, identity.id),)


def test_rights_are_those_of_the_znode_and_of_its_parent() -> None:
    """CREATE and DELETE are rights on the parent, and nothing is inherited. The super user may do
    everything."""
    world = World()
    world.do(Create("/a", b"", only(31)), Origin(identities=(ALICE,)))
    world.do(Create("/a/open", b""), Origin(identities=(ALICE,)))
    stranger = Origin(identities=(IP,))
    assert world.error(Create("/a/x", b""), stranger) is Error.NO_AUTH
    assert world.error(Delete("/a/open"), stranger) is Error.NO_AUTH
    assert world.error(SetData("/a/open", b""), stranger) is Error.OK
    assert world.error(Multi((Check("/a"),)), stranger) is Error.NO_AUTH
    for identities in ((IP, ALICE), (IP, SUPER)):
        assert world.error(Create("/a/x", b""), Origin(identities=identities)) is Error.OK
        assert world.error(Delete("/a/x"), Origin(identities=identities)) is Error.OK


def test_reading_needs_read() -> None:
    """Reads need READ; `exists` needs no right, and a client that may only change rights may look at them."""
    world = World()
    world.do(Create("/w", b"x", only(2)))
    world.do(Create("/adm", b"x", only(16)))
    for read in (world.tree.get_data, world.tree.get_children, world.tree.count_descendants, world.tree.get_acl):
        with pytest.raises(RefusedError) as refused:
            read("/w", (IP,))
        assert refused.value.error is Error.NO_AUTH
    assert world.tree.exists("/w").data_length == 1
    assert world.tree.get_acl("/adm", (ALICE,))[0] == only(16)
    assert world.tree.get_data("/w", (SUPER,))[0] == b"x"


def test_hashes_are_hidden_from_those_who_may_only_read() -> None:
    """They read `alice:x`."""
    world = World()
    world.do(Create("/a", b"", (*only(31), Acl(1, "world", "anyone"))))
    assert world.tree.get_acl("/a", ())[0] == (Acl(31, "digest", "alice:x"), Acl(1, "world", "anyone"))
    assert world.tree.get_acl("/a", (ALICE,))[0][0] == Acl(31, "digest", "alice:hash")
    assert masked(OPEN_ACL) == OPEN_ACL


def test_auth_stands_for_who_its_creator_has_proved_to_be() -> None:
    """An address proves nothing. Duplicates are dropped."""
    sasl = Identity("sasl", "bob")
    asked = (Acl(3, "auth", ""), Acl(3, "digest", "alice:hash"), *OPEN_ACL, *OPEN_ACL)
    assert settled(asked, (IP, ALICE, sasl)) == (*only(3), *only(3, sasl), *OPEN_ACL)
    for identities in ((), (IP,), (SUPER,)):
        with pytest.raises(RefusedError):
            settled((Acl(3, "auth", ""),), identities)


def test_an_acl_is_short_however_many_auth_stands_for() -> None:
    """Each entry `auth` becomes all that its creator is: the product is refused before any replica makes it."""
    world, many = World(), Origin(identities=tuple(Identity("digest", f"{number}:hash") for number in range(50)))
    for count, error in ((5, Error.OK), (6, Error.INVALID_ACL)):
        asked = tuple(Acl(16 + number, "auth", "") for number in range(count))
        assert world.error(Create(f"/{count}", b"", asked), many) is error
        assert world.error(SetAcl("/5", asked), many) is error
    unlike = tuple(Acl(31, "auth", str(number)) for number in range(ENTRIES_MAX + 1))
    assert world.error(Create("/same", b"", unlike), Origin(identities=(ALICE,))) is Error.INVALID_ACL
    named = tuple(Acl(1, "digest", f"{number}:hash") for number in range(ENTRIES_MAX + 1))
    assert world.error(Create("/named", b"", named[1:])) is Error.OK
    assert world.error(Create("/more", b"", named)) is Error.INVALID_ACL


def test_the_acls_of_one_command_are_bounded_together() -> None:
    """Otherwise all replicas would write hundreds of MB for a multi of 10,000 short creates by a
    client with a long name."""
    world, long = World(), Origin(identities=(Identity("digest", f"{'x' * 20_000}:hash"),))
    creates = [Create(f"/{number}", b"", (Acl(31, "auth", ""),)) for number in range(53)]
    assert world.error(Multi(tuple(creates)), long) is Error.INVALID_ACL
    assert world.tree.count_descendants("/", ()) == World().tree.count_descendants("/", ())
    assert world.error(Multi(tuple(creates[:52])), long) is Error.OK


@pytest.mark.parametrize(
    "acl",
    [
        (), (Acl(31, "nobody", "x"),), (Acl(31, "world", "someone"),), (Acl(31, "digest", "alice"),),
        (Acl(31, "digest", "a:b:c"),), (Acl(31, "ip", "somewhere"),), (Acl(31, "ip", "10.0.0.1/40"),), (Acl(31, "sasl", ""),),
        (Acl(31, "", ""),), (*OPEN_ACL, Acl(31, "super", "")),
    ],
)  # fmt: skip
def test_ids_that_their_scheme_cannot_have_are_refused(acl: tuple[Acl, ...]) -> None:
    """Wherever in the list they are."""
    world = World()
    assert world.error(Create("/a", b"", acl)) is Error.INVALID_ACL
    world.do(Create("/b", b""))
    assert world.error(SetAcl("/b", acl)) is Error.INVALID_ACL


def test_addresses_match_networks() -> None:
    """With as many bits as it says."""
    network = (Acl(1, "ip", "10.1.0.0/16"),)
    assert allows(network, 1, (Identity("ip", "10.1.2.3"),))
    assert not allows(network, 1, (Identity("ip", "10.2.2.3"),))
    assert not allows(network, 2, (Identity("ip", "10.1.2.3"),))
    assert not allows(network, 1, (Identity("ip", "no address"), Identity("digest", "10.1.0.0/16")))


@pytest.mark.parametrize(
    ("network", "is_valid"),
    [
        ("10.0.0.1", True), ("010.000.0.01", True), ("10.0.0.0/8", True), ("10.0.0.0/08", True), ("0.0.0.0/0", True),
        ("10.0.0.0/255.0.0.0", False), ("10.0.0.1/33", False), ("10.0.0.1/-1", False), ("10.0.0.1/", False), ("10.0.0.1/ 8", False),
        ("10.0.0", False), ("10.0.0.0.1", False), ("10.0.0.", False), ("256.0.0.1", False), ("", False), ("::1", False),
        ("fe80::/10", False), ("10.0.0.\N{ARABIC-INDIC DIGIT SEVEN}", False), ("10.0.0.1\n", False), ("0" * 64 + "1.0.0.1", False),
    ],
)  # fmt: skip
def test_networks_are_read_as_zookeeper_reads_them(network: str, is_valid: bool) -> None:
    """IPv4, in decimals, with a number of bits. Not as `ipaddress` does, whose rules go by the version of Python: leading zeros were
    taken once, and are refused now; replicas would not agree while they are being updated."""
    assert World().error(Create("/a", b"", (Acl(31, "ip", network),))) is (Error.OK if is_valid else Error.INVALID_ACL)


def test_leading_zeros_are_no_part_of_an_address() -> None:
    """Leading zeros are dropped: a part of an address is decimal, never octal."""
    assert allows((Acl(1, "ip", "010.0.0.08"),), 1, (Identity("ip", "10.0.0.8"),))
    assert not allows((Acl(1, "ip", "010.0.0.8"),), 1, (Identity("ip", "8.0.0.8"), Identity("ip", "::1")))

"""Commands that may cost more than their size suggests: parents with data and long ACLs, quota
texts, multis over few znodes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs

from virtuallog_database.tree.commands import (
    Acl,
    Check,
    Command,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Identity,
    Mode,
    Multi,
    Operation,
    Origin,
    Reap,
    SetAcl,
    SetData,
    Touch,
)

QUOTA = "/zookeeper/quota"
NAMES = ("a", "b", "c")
SESSIONS = (2, 5, 8)
START_MS = 1_700_000_000_000


@attrs.define
class HeavyCommands:
    """Draws commands.

    Args:
        chance: source of randomness; the same one draws the same commands.
        size: bytes of long values.
        parts: most operations of a multi.
    """

    chance: random.Random
    size: int = 20_000
    parts: int = 40
    now_ms: int = START_MS

    def commands(self, count: int) -> Iterator[Command]:
        """Draw `count` commands. Paths are few, so most of them exist."""
        beginning = list(self._beginning())
        for number in range(count):
            self.now_ms += self.chance.choice((0, 1, 50, 2000))
            if number < len(beginning):
                yield Command(beginning[number], Origin(), self.now_ms)
            else:
                yield Command(self._operation(), self._origin(), self.now_ms)

    def _beginning(self) -> Iterator[Operation]:
        yield from (CreateSession(session, b"p", 1) for session in SESSIONS)
        for name in NAMES:
            yield Create(f"/{name}", self._data(), self._acl())
            yield from (Create(f"/{name}/{below}", self._data()) for below in NAMES)
            yield Create(f"{QUOTA}/{name}", None)
            yield Create(f"{QUOTA}/{name}/a", self._data())

    def _origin(self) -> Origin:
        others = (Identity("digest", f"u{n}:x") for n in range(self.chance.choice((0, 0, 0, 90))))
        return Origin(self.chance.choice((0, 0, 0, *SESSIONS)), 1, (Identity("digest", "me:x"), *others))

    def _operation(self) -> Operation:
        match self.chance.randrange(12):
            case 0 | 1 | 2 | 3:
                return Multi(tuple(self._multi()))
            case 4:
                return SetAcl(self._path(), self._acl())
            case 5:
                return Reap((self._path(), self._path()))
            case 6:
                return self.chance.choice(
                    (
                        Touch(SESSIONS),
                        ExpireSessions(((2, 3), (5, 9))),
                        CreateSession(self.chance.choice(SESSIONS), b"p", 1),
                    )
                )
            case 7 | 8:
                return self._quota()
            case _:
                return self._part()

    def _multi(self) -> Iterator[Create | Delete | SetData | Check]:
        """A multi, often of one kind of operation, many times."""
        count = self.chance.randrange(1, self.parts)
        match self.chance.randrange(5):
            case 0:
                parent = self._path()
                yield from (Create(f"{parent}/{n:x}{self.chance.randrange(99)}", b"") for n in range(count))
            case 1:
                at = f"{QUOTA}/{self.chance.choice(NAMES)}/zookeeper_stats"
                yield from (part for _ in range(count) for part in (Delete(at), Create(at, b"count=-1,bytes=-1")))
            case 2:
                path = self._path()
                yield from (SetData(path, b"x" * self.chance.randrange(3)) for _ in range(count))
            case 3:
                path = self._path()
                yield from (Check(path) for _ in range(count))
            case _:
                yield from (self._part() for _ in range(self.chance.randrange(1, 6)))

    def _part(self) -> Create | Delete | SetData | Check:
        path = self._path()
        match self.chance.randrange(8):
            case 0:
                return Delete(f"{path}/{self.chance.choice(NAMES)}")
            case 1:
                return SetData(path, self._data(), self.chance.choice((-1, -1, 0)))
            case 2:
                return Check(path, self.chance.choice((-1, 0)))
            case 3:
                return Create(path + "/s", self._data(), self._acl(), Mode.PERSISTENT_SEQUENTIAL)
            case 4:
                return Create(f"{path}/e{self.chance.randrange(9)}", b"", mode=Mode.EPHEMERAL)
            case 5:
                return Create(f"{path}/c{self.chance.randrange(9)}", b"", mode=Mode.CONTAINER)
            case 6:
                return self._quota()
            case _:
                return Create(f"{path}/{self.chance.choice(NAMES)}", self._data(), self._acl())

    def _quota(self) -> Create | Delete | SetData:
        at = f"{QUOTA}/{self.chance.choice(NAMES)}" + self.chance.choice(("", "", "", "/a"))
        path = at + self.chance.choice(("/zookeeper_limits", "/zookeeper_stats", "/zookeeper_stats", ""))
        text = self._text()
        return self.chance.choice((Create(path, text), Create(path, text), SetData(path, text), Delete(path)))

    def _text(self) -> bytes:
        """Text of a quota: a usual one, a long one, one with other names, or none."""
        pairs = [
            f"count={self.chance.choice((-1, 3, 10**19))}",
            f"bytes={self.chance.choice((-1, 5))}=",
            f"byteHardLimit={self.chance.choice((-1, 10, 10**6))}",
            f"countHardLimit={self.chance.choice((-1, 2, 300))}",
        ]
        others = [f"{self.chance.choice('xyz')}{'abcd'[n % 4] * (n % 7)}={n}" for n in range(self.size // 8)]
        return self.chance.choice(
            (
                b"",
                b"count=-1,bytes=-1",
                ";".join(pairs).encode(),
                (",".join(pairs[:2]) + ";" + ";".join(pairs[2:])).encode(),
                ";".join(pairs + others).encode(),
                ";".join(others).encode(),
                b"x" * self.size,
            )
        )

    def _path(self) -> str:
        names = self.chance.choices(NAMES, k=self.chance.choice((1, 1, 1, 1, 2)))
        return "/" + "/".join(names)

    def _data(self) -> bytes | None:
        return self.chance.choice((None, b"", b"x" * 10, b"y" * 1024, b"z" * 1025, b"w" * self.size))

    def _acl(self) -> tuple[Acl, ...]:
        """An ACL: open, short, long, or the creator's identities."""
        count = self.chance.choice((2, 17, 18, 200))
        return self.chance.choice(
            (
                (Acl(31, "world", "anyone"),),
                (Acl(31, "world", "anyone"),),
                (Acl(31, "digest", "me:x"),),
                (Acl(31, "auth", ""),),
                tuple(Acl(31, "digest", f"{'me' if n == count - 1 else 'n' * 40 + str(n)}:x") for n in range(count)),
            )
        )

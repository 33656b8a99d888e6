"""From a dry run to a record: who may act, what is confirmed, and what becomes of an action that is cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.console.actions.acting import POLICY, USERS, ActingConsole, acting
from tests.console.views.test_nodes import log_of
from tests.server.node.world import make_world, until
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, TooLargeError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, LogPosition
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.actions.action_pages import WAIT_SECONDS
from virtuallog_console.actions.action_runner import FAILED, REFUSED, outcome_of
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider

ENTRIES = [b"entry %d" % number for number in range(10)]
OFF = attrs.evolve(POLICY, actions=False)


@attrs.define
class StuckLoglet(MemoryLoglet):
    """A loglet whose appends wait for ever while its provider is stuck."""

    provider: StuckProvider

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        if self.provider.is_stuck:
            await trio.sleep_forever()
        return await MemoryLoglet.append(self, batch, opens=opens, expected_tail=expected_tail)

    async def seal(self) -> None:
        await self.provider.may_seal.wait()
        await MemoryLoglet.seal(self)


@attrs.define
class StuckProvider(MemoryProvider):
    """A kind that takes no appends, or is not sealed, when a test says so."""

    kind: str = "stuck"
    is_stuck: bool = False
    may_seal: trio.Event = attrs.field(factory=trio.Event)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        opened = MemoryProvider.open(self, segment, config, environment)
        return StuckLoglet(opened._shared, environment.clock, self)


@attrs.frozen
class Stage:
    """A console over three nodes without a database."""

    console: ActingConsole
    other: VirtualLog
    """Another client."""
    stuck: StuckProvider


@asynccontextmanager
async def staged(policy: AccessPolicy = POLICY) -> AsyncIterator[Stage]:
    async with make_world() as world:
        stuck, other = StuckProvider(), MemoryProvider(kind="other")
        stuck.may_seal.set()
        nodes = [await world.start(number, stuck, other) for number in (1, 2, 3)]
        await until(lambda: all(not node.not_ready() for node in nodes))
        log = log_of(nodes[0])
        await log.append_many(ENTRIES)
        async with acting(log, policy) as console:
            yield Stage(console, log_of(nodes[1]), stuck)


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "trim": ("trim 3", {"position": 3}),
    "reconfigure": ("reconfigure other", {"kind": "other", "settings": ""}),
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("policy", [POLICY, OFF], ids=["on", "off"])
async def test_requests_by_role_and_settings(user: str, policy: AccessPolicy, autojump_clock: MockClock) -> None:
    """All see the link. Only admins, and only with `actions`, see a dry run or change anything; the others see a page with the reason."""
    may = user == "alice" and policy.actions
    async with staged(policy) as stage:
        console, log = stage.console, stage.console.log
        before = await log.view.refresh()
        first = await console.get("/", user)
        assert b'href="/actions"' in first.body
        for path in (
            "/actions",
            "/actions/trim",
            "/actions/trim?position=3",
            "/actions/drain?node=1",
            "/actions/nothing",
        ):
            answer = await console.get(path, user)
            wanted = 404 if may and path.endswith("nothing") else 200 if may else 403
            assert answer.status == wanted, path
            assert answer.headers["content-type"].startswith("text/html")
            if not may:
                reason = b"`actions`" if user == "alice" else b"needs the role admin"
                assert reason in answer.body
        for name, (confirmation, arguments) in CHANGES.items():
            version = (await log.view.refresh()).version
            answer = await console.post(name, user, confirmation=confirmation, version=version, **arguments)
            assert answer.status == (200 if may else 403), (name, answer.body)
            if not may:
                assert answer.json["type"].endswith("actions-off" if user == "alice" else "forbidden")
        after = await log.view.refresh()
        assert (after.version > before.version) == may
        assert (await log.find_trim_point()) == (3 if may else 0)
        assert len(await console.records()) == (4 if may else 0)


async def test_a_form_of_another_site_changes_nothing(autojump_clock: MockClock) -> None:
    """Neither by its origin nor by the word of the browser; nor do other bodies and methods."""
    async with staged() as stage:
        console = stage.console
        version = (await console.log.view.refresh()).version
        values = {"position": 3, "confirmation": "trim 3", "version": version}
        for headers in ({"Origin": "https://attacker.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            assert (await console.send(console.form("trim", "alice", headers, **values))).status == 403
        assert (
            await console.send(console.form("trim", "alice", {"content-type": "text/plain"}, **values))
        ).status == 415
        assert (await console.post("trim", "alice", **values, more="x" * (17 << 10))).status == 413
        assert (
            await console.post("trim", "alice", **values, **{f"a{number}": 1 for number in range(20)})
        ).status == 400
        assert await console.log.find_trim_point() == 0
        assert await console.records() == []


async def test_an_action_is_confirmed_in_its_own_words(autojump_clock: MockClock) -> None:
    """The dry run shows them. Without them, or with others, nothing is done, and the page says what to type."""
    async with staged() as stage:
        console = stage.console
        shown = await console.page("/actions/trim?position=3")
        assert "3 positions: 0 to 2" in shown.text
        assert "To carry it out, type trim 3" in shown.text
        for wrong in ("", "trim", "trim 4", "TRIM 3", "yes"):
            page = await console.act("trim", wrong, 422, position=3)
            assert "Nothing was done: to confirm it, type “trim 3”" in page.text
        assert await console.log.find_trim_point() == 0
        assert await console.records() == []
        page = await console.act("trim", " trim 3 ", position=3)
        assert "done: the log begins at 3" in page.text
        assert await console.log.find_trim_point() == 3


async def test_a_trim_that_has_no_effect_is_refused(autojump_clock: MockClock) -> None:
    """A reload of the page, a position below the trim point, and one past the tail, where entries would be dropped that are not there yet."""
    async with staged() as stage:
        console = stage.console
        await console.act("trim", "trim 3", position=3)
        for position, reason in (
            (3, "nothing to drop"),
            (0, "nothing to drop"),
            (999, "entries that are not there yet"),
        ):
            page = await console.act("trim", f"trim {position}", 409, position=position)
            assert reason in page.text
        assert len(await console.records()) == 2
        assert (await console.get("/actions/trim?position=x")).status == 400


async def test_what_was_planned_for_another_version_is_not_done(autojump_clock: MockClock) -> None:
    """Two tabs, a double click, a reload: the second one gets a new dry run and changes nothing."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        version = (await log.view.refresh()).version
        answer = await console.post("reconfigure", kind="other", confirmation="reconfigure other", version=version)
        assert answer.status == 200
        for name, (confirmation, arguments) in CHANGES.items():
            again = await console.post(name, confirmation=confirmation, version=version, **arguments)
            assert again.status == 409
            assert f"at version {version + 1}, and the dry run was for version {version}".encode() in again.body
        chain = (await log.view.refresh()).chain
        assert [segment.kind for segment in chain.segments] == ["memory", "other"]
        assert await log.find_trim_point() == 0
        assert [record.outcome for record in await console.records()] == ["", "done"]


async def test_a_change_between_the_check_and_the_put_ends_the_action(autojump_clock: MockClock) -> None:
    """The register moves on while the record of the intent is on its way."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        await log.reconfig_extend("stuck")
        stage.stuck.is_stuck = True
        async with trio.open_nursery() as nursery:
            pages = []

            async def act() -> None:
                pages.append(await console.act("trim", "trim 3", 409, position=3))

            nursery.start_soon(act)
            await shows(console, "Under way at this console")
            await log.reconfig_extend("other")
        (page,) = pages
        assert "refused" in page.text
        assert await log.find_trim_point() == 0
        assert [record.outcome for record in await console.records()] == ["", "refused"]


async def test_a_change_between_seal_and_put_ends_the_reconfiguration(autojump_clock: MockClock) -> None:
    """It was for one version. The segment is sealed by then, so the log goes on on one of the same kind, and takes appends."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        await log.reconfig_extend("stuck")
        stage.stuck.may_seal = trio.Event()
        await console.act("reconfigure", "reconfigure other", 202, kind="other")
        version = (await log.view.refresh()).version
        await stage.other.prefix_trim(LogPosition(len(ENTRIES)))
        assert (await log.view.refresh()).version > version
        stage.stuck.may_seal.set()
        await shows(console, "failed: the chain is at version")
        await log.append(b"goes on")
        assert [segment.kind for segment in (await log.view.refresh()).chain.segments] == ["stuck", "stuck"]
        assert (await console.records())[-1].outcome == "failed"


async def shows(console: ActingConsole, words: str) -> None:
    """Wait until the page of actions has these words."""
    with trio.fail_after(120):  # noqa: TID251 -- simulated time
        while words not in (await console.page("/actions")).text:
            await trio.sleep(0.1)  # noqa: TID251 -- simulated time


async def test_one_action_at_a_time(autojump_clock: MockClock) -> None:
    """Others learn who is at it. The one under way outlives its request, and a client that has gone; the page of actions shows its end."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        await log.reconfig_extend("stuck")
        stage.stuck.may_seal = trio.Event()
        started = console.room.clock.monotonic()
        page = await console.act("reconfigure", "reconfigure other", 202, kind="other")
        assert console.room.clock.monotonic() - started >= WAIT_SECONDS
        assert "Under way" in page.text
        refused = await console.act("trim", "trim 3", 409, position=3)
        assert "another action under way; alice is at it: reconfigure other" in refused.text
        assert "Under way at this console" in (await console.page("/actions")).text
        stage.stuck.may_seal.set()
        await shows(console, "The last one at this console")
        shown = await console.page("/actions")
        assert "done: the log goes on on the other segment" in shown.text
        await console.act("trim", "trim 3", position=3)


async def test_an_action_that_does_not_end_is_unknown(autojump_clock: MockClock) -> None:
    """After its own time the console lets go of it, and says so in the log."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        await log.reconfig_extend("stuck")
        stage.stuck.may_seal = trio.Event()
        await console.act("reconfigure", "reconfigure other", 202, kind="other")
        await shows(console, "unknown: no end within 60 s")
        record = (await console.records())[-1]
        assert (record.event, record.outcome) == ("outcome", "unknown")


async def test_without_a_record_only_a_reconfiguration_goes_on(autojump_clock: MockClock) -> None:
    """The active segment takes no appends: a trim is refused. A swap repairs it, and its record says that no intent could be written."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        await log.reconfig_extend("stuck")
        stage.stuck.is_stuck = True
        page = await console.act("trim", "trim 3", 409, position=3)
        assert "the log does not take the record of the intent" in page.text
        assert "the outcome is in the log of this process only" in page.text
        assert await log.find_trim_point() == 0
        page = await console.act("reconfigure", "reconfigure other", kind="other")
        assert "done" in page.text
        records = await console.records()
        assert [(one.event, one.action) for one in records if one.outcome == "done"] == [("outcome", "reconfigure")]
        assert next(one for one in records if one.outcome == "done").intent.startswith("no intent could be recorded")


async def test_a_wrong_kind_or_setting_is_refused_in_the_dry_run(autojump_clock: MockClock) -> None:
    """With the words of the provider; nothing can be confirmed then."""
    async with staged() as stage:
        console = stage.console
        for query, reason in (
            ("kind=nothing", "no loglet kind 'nothing'"),
            ("kind=other&settings=a%3D1", "has no settings"),
        ):
            shown = await console.page(f"/actions/reconfigure?{query}")
            assert reason in shown.text
            assert "confirmation" not in shown.ids
        for text in ("a", "=1", "a=1%0Aa=2"):
            assert (await console.get(f"/actions/reconfigure?kind=other&settings={text}")).status == 400
        shown = await console.page("/actions/reconfigure?kind=other")
        assert "a new other segment takes the appends from there on" in shown.text
        assert "it is sealed at its tail, 10 now" in shown.text


def test_a_register_that_is_full_refuses() -> None:
    """It is found to be full before anything is sealed, so "nothing was changed" is right."""
    error = TooLargeError(what="bytes in the register", size=2, limit=1)
    assert outcome_of(error, has_begun=False) == REFUSED
    assert outcome_of(error, has_begun=True) == FAILED
    assert outcome_of(InvalidSettingError("kind", "unknown"), has_begun=False) == REFUSED

"""A program with a replica that runs transactions on tables, several at once, and writes down what it has read and was answered.

Few rows are hot, and there are fewer values of the unique index than rows. It begins with the first version of the schema. From some
time on it changes to the second one, by itself or as it is refused, and migrates the table.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.testing.sim.process import CrashedError
from virtuallog_database.client import DatabaseHandle
from virtuallog_database.table.client import ResultT, Tables
from virtuallog_database.table.errors import (
    ConflictError,
    IndexNotReadyError,
    SchemaTooOldError,
    UniqueViolationError,
)
from virtuallog_database.table.schema import schema_of
from virtuallog_database.table.transaction import TableTransaction
from virtuallog_simulation.checks.database.table_model import (
    BY_BALANCE,
    BY_IBAN,
    BY_OWNER,
    Account,
    Call,
    Delete,
    Get,
    Put,
    Scan,
    TableStep,
    Told,
    TransactionOutcome,
)
from virtuallog_simulation.workload.database.table_rows import (
    IBANS,
    IDS,
    OWNERS,
    FirstAccount,
    Note,
    SecondAccount,
)

TASKS: Final = (2, 4)
"""Transactions of one program at the same time."""
PAUSE_SECONDS: Final = 0.1
"""Mean time between two transactions of a task."""
RUSH_SECONDS: Final = 1.5
"""Time behind the change of versions in which the pauses are a tenth as long, so that migrations meet writers."""
THINKING_SECONDS: Final = 0.04
"""Longest time between two calls of a transaction."""
ANSWER_SECONDS: Final = 4.0
"""Longest wait for an answer; a commit may still happen."""
TRIES: Final = (1, 1, 3)
"""Attempts of a transaction, at most."""
PAGE_SECONDS: Final = 0.06
"""Longest time that a migration stands still before a commit."""
PAGE_ROWS: Final = (1, 3)
"""Rows of a page of a migration: several pages."""

COMMITTED: Final = "tables transactions committed"
REPEATED: Final = "tables attempts behind a conflict"
CONFLICTS: Final = "tables conflicts"
VIOLATIONS: Final = "tables unique violations"
SCANNED: Final = "tables scans with rows"
READ_ONLY: Final = "tables read-only transactions"
LEFT: Final = "tables transactions without an answer"
MIGRATED: Final = "tables migrations that rewrote rows"
TOO_OLD: Final = "tables programs refused as too old"
NOT_READY: Final = "tables scans of an index that is not ready"
SHAPES: Final = (COMMITTED, REPEATED, CONFLICTS, VIOLATIONS, SCANNED, READ_ONLY, LEFT, MIGRATED, TOO_OLD, NOT_READY)


@attrs.define(eq=False)
class RecordedTransaction:
    """A transaction whose calls are written down, with their results."""

    transaction: TableTransaction
    told: Told
    kind: type[FirstAccount] | type[SecondAccount]

    async def get(self, key: str) -> Account | None:
        found = await self.transaction.get(self.kind, key)
        row = None if found is None else found.plain()
        self._note(Get(key), () if row is None else (row,))
        return row

    async def scan(self, scan: Scan) -> tuple[Account, ...]:
        prefix = () if scan.prefix is None else (scan.prefix,)
        after: Any = None if scan.after is None else self.kind.of(scan.after)
        found = await self.transaction.scan(
            self.kind, *prefix, index=scan.index, start=scan.start, stop=scan.stop, after=after, limit=scan.limit
        )
        rows = tuple(row.plain() for row in found)
        self._note(scan, rows)
        return rows

    def put(self, row: Account) -> None:
        self.transaction.put(self.kind.of(row))
        self._note(Put(row))

    def delete(self, key: str) -> None:
        self.transaction.delete(self.kind, key)
        self._note(Delete(key))

    def _note(self, call: Call, rows: tuple[Account, ...] = ()) -> None:
        self.told.steps.append(TableStep(call, rows))


Shape: TypeAlias = Callable[[RecordedTransaction], Awaitable[None]]


@attrs.define(eq=False)
class _SlowTables(Tables):
    """Tables whose client stands still before it commits a page of a migration: others write its rows meanwhile."""

    clock: Clock = attrs.field(kw_only=True)
    random: random.Random = attrs.field(kw_only=True)

    async def run(
        self,
        function: Callable[[TableTransaction], Awaitable[ResultT]],
        *,
        tries: int = 1,
        linearizable: bool = True,
    ) -> ResultT:
        async def slow(transaction: TableTransaction) -> ResultT:
            result = await function(transaction)
            await self.clock.sleep(self.random.uniform(0, PAGE_SECONDS))
            return result

        return await super().run(slow, tries=tries, linearizable=linearizable)


@attrs.define(eq=False)
class _Attempts:
    """Attempts of one transaction, each with a name of its own."""

    program: TableProgram
    shape: Shape
    is_linearizable: bool = attrs.field(kw_only=True)
    _began: float = attrs.field(init=False)
    """True time before the beginning of the next attempt."""
    _last: tuple[Told, TableTransaction] | None = attrs.field(default=None, init=False)
    """The attempt that has no outcome yet."""

    def __attrs_post_init__(self) -> None:
        self._began = self.program.now()

    async def run(self, transaction: TableTransaction) -> None:
        """Run the next attempt: the one before has met a conflict."""
        program = self.program
        if self._last is not None:
            program.count(REPEATED)
            self.end(TransactionOutcome.REFUSED)
        told = program.begin(self.is_linearizable, self._began)
        self._last = told, transaction
        await self.shape(RecordedTransaction(transaction, told, program.kind))
        if told.writes:
            transaction.put(Note(program.who, told.name))
        self._began = program.now()

    def end(self, outcome: TransactionOutcome) -> None:
        """Write down the outcome of the last attempt, once."""
        if self._last is None:
            return
        (told, transaction), self._last = self._last, None
        told.outcome, program = outcome, self.program
        if outcome is TransactionOutcome.UNKNOWN:
            program.count(LEFT)
        else:
            told.ended = program.now()
        if outcome is TransactionOutcome.DONE:
            told.number = transaction.number
            program.count(COMMITTED if told.writes else READ_ONLY)
        if any(isinstance(step.call, Scan) and step.rows for step in told.steps):
            program.count(SCANNED)


@attrs.define(eq=False, kw_only=True)
class TableProgram:
    """One program, for a life of its process."""

    who: str
    clock: Clock
    random: random.Random
    told: list[Told]
    """All transactions of a run."""
    now: Callable[[], float]
    """True time."""
    count: Callable[[str], None]
    upgrade_at: float
    """True time from which on programs may change to the second version."""
    handle: DatabaseHandle = attrs.field(init=False)
    kind: type[FirstAccount] | type[SecondAccount] = attrs.field(default=FirstAccount, init=False)
    _ready: trio.Event = attrs.field(factory=trio.Event, init=False)
    _begun: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.handle = DatabaseHandle(clock=self.clock, random=self.random)

    def ready(self) -> None:
        """The first life of the replica has begun."""
        self._ready.set()

    @property
    def is_ready(self) -> bool:
        """True once there is a database."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Run transactions, until cancelled."""
        await self._ready.wait()
        async with trio.open_nursery() as nursery:
            for _ in range(self.random.randint(*TASKS)):
                nursery.start_soon(self._work)

    async def _work(self) -> None:
        while True:
            is_rush = self.upgrade_at < self.now() < self.upgrade_at + RUSH_SECONDS
            await self.clock.sleep(self.random.expovariate(1 / PAUSE_SECONDS) * (0.1 if is_rush else 1.0))
            if self.kind is FirstAccount and self.now() > self.upgrade_at and self.random.random() < 0.1:
                await self._change_version()
            with self.clock.timeout(ANSWER_SECONDS):
                await self._transact(self._draw())

    # -- one transaction ----------------------------------------------------------------------------------------------

    async def _transact(self, shape: Shape) -> None:
        """Run a transaction, in part of the cases again after conflicts, and write down the outcome of each attempt."""
        attempts = _Attempts(self, shape, is_linearizable=self.random.random() < 0.7)
        outcome, tables = TransactionOutcome.REFUSED, Tables(self.handle)
        try:
            await tables.run(attempts.run, tries=self.random.choice(TRIES), linearizable=attempts.is_linearizable)
            outcome = TransactionOutcome.DONE
        except ConflictError:
            self.count(CONFLICTS)
        except UniqueViolationError:
            self.count(VIOLATIONS)
        except IndexNotReadyError:
            self.count(NOT_READY)
            attempts.end(outcome)
            await self._migrate()
        except SchemaTooOldError:
            self.count(TOO_OLD)
            self.kind = SecondAccount
        except (VirtualLogError, CrashedError):
            outcome = TransactionOutcome.UNKNOWN
        except trio.Cancelled:
            outcome = TransactionOutcome.UNKNOWN
            raise
        finally:
            attempts.end(outcome)

    def begin(self, is_linearizable: bool, began: float) -> Told:
        """A transaction that has no outcome yet."""
        self._begun += 1
        told = Told(name=f"{self.who}/{self._begun}", is_linearizable=is_linearizable, began=began)
        self.told.append(told)
        return told

    async def _change_version(self) -> None:
        self.kind = SecondAccount
        if self.random.random() < 0.7:
            await self._migrate()

    async def _migrate(self) -> None:
        """Migrate the table: it may end halfway, and others may do the same."""
        with self.clock.timeout(ANSWER_SECONDS):
            try:
                if await _SlowTables(self.handle, clock=self.clock, random=self.random).migrate(
                    SecondAccount, page_rows=self.random.randint(*PAGE_ROWS)
                ):
                    self.count(MIGRATED)
            except (VirtualLogError, CrashedError):
                return

    # -- shapes -------------------------------------------------------------------------------------------------------

    def _draw(self) -> Shape:
        return self.random.choice(
            (self._transfer, self._transfer, self._fill, self._move, self._exchange, self._look, self._look, self._mix,
             self._mix, self._put, self._delete)
        )  # fmt: skip

    async def _transfer(self, t: RecordedTransaction) -> None:
        """Move an amount between two rows, the hot ones most often."""
        source, target = self.random.sample(IDS if self.random.random() < 0.4 else IDS[:3], 2)
        payer = await t.get(source)
        await self._think()
        payee = await t.get(target)
        if payer is not None and payee is not None:
            t.put(attrs.evolve(payer, balance=payer.balance - 1))
            t.put(attrs.evolve(payee, balance=payee.balance + 1))

    async def _fill(self, t: RecordedTransaction) -> None:
        """Put a row for an owner that has less than two: two of these that do not see each other would make one too many."""
        owner = self.random.choice(OWNERS)
        rows = await t.scan(Scan(BY_OWNER, owner, limit=2))
        await self._think()
        if len(rows) < 2:
            t.put(self._row(owner=owner))
        else:
            t.delete(rows[0].id)

    async def _move(self, t: RecordedTransaction) -> None:
        """Give a row another owner: its entry moves."""
        row = await t.get(self.random.choice(IDS))
        await self._think()
        if row is not None:
            t.put(attrs.evolve(row, owner=self.random.choice(OWNERS), balance=row.balance + 1))
        else:
            t.put(self._row())

    async def _exchange(self, t: RecordedTransaction) -> None:
        """Let two rows exchange their values in the unique index."""
        rows = await t.scan(Scan(BY_IBAN, limit=4))
        await self._think()
        if len(rows) > 1:
            one, other = self.random.sample(rows, 2)
            t.put(attrs.evolve(one, iban=other.iban))
            t.put(attrs.evolve(other, iban=one.iban))

    async def _look(self, t: RecordedTransaction) -> None:
        """Read only, also page by page."""
        rows = await t.scan(self._scan(t))
        for row in rows[:2]:
            await self._think()
            await t.get(row.id)
        index = self.random.choice((None, *schema_of(t.kind).indices))
        page = await t.scan(Scan(index, limit=2))
        while len(page) == 2:
            await self._think()
            page = await t.scan(Scan(index, after=page[-1], limit=2))

    async def _mix(self, t: RecordedTransaction) -> None:
        """Any calls in any order."""
        for _ in range(self.random.randint(1, 5)):
            drawn = self.random.random()
            if drawn < 0.3:
                await t.get(self.random.choice(IDS))
            elif drawn < 0.6:
                await t.scan(self._scan(t))
            elif drawn < 0.9:
                t.put(self._row())
            else:
                t.delete(self.random.choice(IDS))
            await self._think()

    async def _put(self, t: RecordedTransaction) -> None:
        """Put a row without a look."""
        t.put(self._row())

    async def _delete(self, t: RecordedTransaction) -> None:
        """Delete a row without a look."""
        t.delete(self.random.choice(IDS))

    def _row(self, owner: str | None = None) -> Account:
        iban = self.random.choice(IBANS) if self.random.random() < 0.6 else None
        return Account(self.random.choice(IDS), owner or self.random.choice(OWNERS), iban, self._begun)

    def _scan(self, t: RecordedTransaction) -> Scan:
        drawn, limit = self.random.random(), self.random.randint(1, 4)
        if drawn < 0.5:
            return Scan(BY_OWNER, self.random.choice(OWNERS), limit=limit)
        if drawn < 0.75:
            return Scan(BY_IBAN, start=self.random.choice(IBANS), limit=limit)
        if drawn < 0.85 and t.kind is SecondAccount:
            return Scan(BY_BALANCE, limit=limit)
        start, stop = sorted(self.random.sample(IDS, 2))
        return Scan(start=start, stop=stop, limit=limit)

    async def _think(self) -> None:
        await self.clock.sleep(self.random.uniform(0, THINKING_SECONDS))

"""A table in one process, without a network: python examples/table.py DIRECTORY"""

import sys

import attrs
import trio

from virtuallog.embedded import open_embedded
from virtuallog.table import Index, Row, TableTransaction, UniqueViolationError, table


@table("accounts", key="id", indices={"by_owner": Index("owner"), "by_iban": Index("iban", is_unique=True)})
@attrs.frozen
class Account(Row):
    id: int
    owner: str
    iban: str | None = None
    balance: int = 0


async def transfer(t: TableTransaction, source: int, target: int, amount: int) -> int:
    payer, payee = await t.get(Account, source), await t.get(Account, target)
    assert payer is not None
    assert payee is not None
    t.put(attrs.evolve(payer, balance=payer.balance - amount))
    t.put(attrs.evolve(payee, balance=payee.balance + amount))
    return payer.balance - amount


async def main(path: str) -> None:
    async with open_embedded(path) as client:
        tables = client.tables
        async with tables.transaction() as t:
            for number, owner in enumerate(("ann", "bob", "ann"), 1):
                t.put(Account(number, owner, f"DE{number}", 100))
        print("left", await tables.run(lambda t: transfer(t, 1, 2, 30)))
        for account in await tables.scan(Account, "ann", index="by_owner"):
            print(account.id, account.balance)
        try:
            await tables.put(Account(4, "eve", "DE1"))
        except UniqueViolationError as error:
            print(error)


trio.run(main, sys.argv[1])

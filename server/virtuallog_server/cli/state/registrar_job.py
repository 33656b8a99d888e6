"""The work of `virtuallog registrar`. It knows no tables: records that are not JSON are printed in base 64."""

from __future__ import annotations

import json
from typing import Any

import click

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.registrar.core import ownership
from virtuallog_database.registrar.core.ownership import OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import split_key, split_slot
from virtuallog_database.state.core.record_changes import VersionedRecords
from virtuallog_database.state.location import open_storage, records_of
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json, printable
from virtuallog_server.process.registry_tables import tables_of


def show(storage: str, name: str, table: str | None, as_json: bool) -> None:
    """Print the records of a registry.

    Raises:
        Failure: there is no such registry, or no record of this table.
        CorruptionError, MalformedError, BinaryTooOldError: it cannot be read.
    """

    async def work() -> tuple[str, Ownership | None, dict[str, dict[str, Any]]]:
        async with open_storage(storage, create=False) as found:
            loaded = await records_of(found).load(name)
        if loaded is None:
            raise Failure(f"there is no registry '{printable(name)}'")
        records = records_in_order(loaded)
        owner = next((record for kind, _, record in records if kind == OWNERSHIP.name), None)
        tables = await tables_of(each for each in records if each[0] != OWNERSHIP.name)
        return loaded.version.hex(), None if owner is None else ownership.decode_untrusted(owner), tables

    version, owner, tables = event_loop.run(work)
    if table is not None and table not in tables:
        known = ", ".join(tables) or "none"
        raise Failure(f"the registry has no records of a table '{printable(table)}' (tables with records: {known})")
    shown = tables if table is None else {table: tables[table]}
    if as_json:
        echo_json({"name": name, "version": version, "owner": owner and _plain(owner), "tables": shown})
        return
    click.echo(f"version {version}  {_describe(owner)}")
    for found_table, records in shown.items():
        for key, record in records.items():
            line = json.dumps(record, ensure_ascii=False)
            click.echo(f"{found_table}  {printable(key)}  {printable(line)}")


def _plain(owner: Ownership) -> dict[str, Any]:
    return {"name": owner.owner, "epoch": owner.epoch, "capabilities": list(owner.capabilities)}


def _describe(owner: Ownership | None) -> str:
    if owner is None:
        return "no owner"
    needs = f"  needs {printable(', '.join(owner.capabilities))}" if owner.capabilities else ""
    return f"owner {printable(owner.owner)}  epoch {owner.epoch}{needs}"


def records_in_order(loaded: VersionedRecords) -> list[tuple[str, str, bytes]]:
    """Table, key and record of each, in the order in which they were added.

    Raises:
        CorruptionError: a record is not one of a registry.
    """
    rows = []
    for stored, value in loaded.records.items():
        number, record = split_slot(value)
        try:
            table, key = split_key(stored)
        except UnicodeDecodeError as error:
            raise CorruptionError(f"a record whose key is not text: {stored[:40]!r}") from error
        if not table.isprintable() or not table or not key:
            raise CorruptionError(f"a record that is none of a registry: {stored[:40]!r}")
        rows.append((number, table, key, record))
    return [(table, key, record) for _, table, key, record in sorted(rows, key=lambda row: row[0])]

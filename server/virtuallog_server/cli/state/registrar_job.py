"""The work of `virtuallog registrar`. It knows no tables: records that are not JSON are printed in base 64."""

from __future__ import annotations

import base64
import json
from typing import Any

import click

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP
from virtuallog_database.registrar.core.tables import split_key, split_slot
from virtuallog_database.state.core.record_changes import VersionedRecords
from virtuallog_database.state.location import open_storage, records_of
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json


def show(storage: str, name: str, table: str | None, as_json: bool) -> None:
    """Print the records of a registry.

    Raises:
        Failure: there is no such registry.
    """

    async def work() -> VersionedRecords | None:
        async with open_storage(storage, create=False) as found:
            return await records_of(found).load(name)

    loaded = event_loop.run(work)
    if loaded is None:
        raise Failure(f"there is no registry '{name}'")
    tables = tables_of(loaded)
    owner = tables.pop(OWNERSHIP.name, {}).get(KEY)
    shown = tables if table is None else {table: tables.get(table, {})}
    if as_json:
        echo_json({"name": name, "version": loaded.version.hex(), "owner": owner, "tables": shown})
        return
    click.echo(f"version {loaded.version.hex()}  owner {json.dumps(owner)}")
    for found_table, records in shown.items():
        for key, record in records.items():
            click.echo(f"{found_table}  {key}  {json.dumps(record, ensure_ascii=False)}")


def tables_of(loaded: VersionedRecords) -> dict[str, dict[str, Any]]:
    """Records by table and key, in their order.

    Raises:
        CorruptionError: a record is not one of a registry.
    """
    rows = []
    for stored, value in loaded.records.items():
        number, record = split_slot(value)
        rows.append((number, *split_key(stored), _plain(record)))
    tables: dict[str, dict[str, Any]] = {}
    for _, table, key, plain in sorted(rows, key=lambda row: row[0]):
        if not table:
            raise CorruptionError("a record that is none of a registry")
        tables.setdefault(table, {})[key] = plain
    return tables


def _plain(record: bytes) -> Any:
    try:
        return json.loads(record)
    except ValueError:
        return {"base64": base64.b64encode(record).decode()}

"""The work of `virtuallog state`."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, BinaryIO, Final, TextIO, TypeVar

import click

from virtuallog.contract.errors import MalformedError
from virtuallog_database.state.location import open_storage
from virtuallog_database.state.state import State
from virtuallog_database.state.variable import VERSION_BYTES, Variable
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json, printable

ResultT = TypeVar("ResultT")

VALUE_BYTES_MAX: Final = 64 << 20
"""Largest value that any storage takes."""
LINE_BYTES_MAX: Final = 6 * VALUE_BYTES_MAX + (1 << 20)
"""Longest line of a dump: JSON has six characters for a control character, and a MiB is left for the name and the version."""


def names(storage: str, as_json: bool) -> None:
    """Print the names of all variables, sorted."""
    found = sorted(_with_state(storage, State.names, create=False))
    if as_json:
        echo_json({"names": found})
    else:
        for name in found:
            click.echo(printable(name))


def get(storage: str, name: str, as_json: bool) -> None:
    """Print a value.

    Raises:
        Failure: there is none.
    """
    variable = _with_state(storage, lambda state: state.fetch(name), create=False)
    if not variable.is_stored:
        raise Failure(f"there is no variable '{printable(name)}'")
    if as_json:
        echo_json(row_of(variable))
    else:
        sys.stdout.buffer.write(variable.value)
        sys.stdout.buffer.flush()


def value_of(text: str | None, file: BinaryIO | None) -> bytes:
    """The value to store: the bytes of an argument, or as much of a file as shows that it is too large.

    Raises:
        click.UsageError: none or both are given, or the text has a lone surrogate.
    """
    if (text is None) == (file is None):
        raise click.UsageError("give a value, or --file")
    if file is not None:
        return file.read(VALUE_BYTES_MAX + 1)
    assert text is not None
    try:
        return text.encode(errors="surrogateescape")  # bytes that are no UTF-8, as Python decodes arguments
    except UnicodeEncodeError as error:
        raise click.UsageError(f"the value is not text: {error.reason}") from error


def store(storage: str, name: str, value: bytes, expected: str | None, as_json: bool) -> None:
    """Store a value, and print its version."""

    async def work(state: State) -> Variable:
        variable = _expected(await state.fetch(name), expected)
        return await state.store(variable.mutate(value), recreate=expected is None)

    stored = _with_state(storage, work)
    if as_json:
        echo_json({"name": name, "version": stored.version.hex()})
    else:
        click.echo(stored.version.hex())


def expunge(storage: str, name: str, expected: str | None) -> None:
    """Remove a variable.

    Raises:
        Failure: there is none of this version.
    """

    async def work(state: State) -> bool:
        return await state.expunge(_expected(await state.fetch(name), expected))

    if not _with_state(storage, work, create=False):
        raise Failure(f"there is no variable '{printable(name)}'" + (f" of version {expected}" if expected else ""))


def dump(storage: str, out: TextIO) -> None:
    """Write all variables, a line each, sorted by name."""

    async def work(state: State) -> None:
        for name in sorted(await state.names()):
            variable = await state.fetch(name)
            if variable.is_stored:
                out.write(json.dumps(row_of(variable), ensure_ascii=False) + "\n")

    _with_state(storage, work, create=False)


def restore(storage: str, lines: BinaryIO, replaces: bool) -> None:
    """Store the variables of a dump, one after the other. Lines before a bad one are stored.

    Raises:
        MalformedError: a line is no variable, or too long; names its number.
    """

    async def work(state: State) -> int:
        count = 0
        for number, line in enumerate(iter(lambda: lines.readline(LINE_BYTES_MAX + 1), b""), 1):
            if len(line) > LINE_BYTES_MAX:
                raise MalformedError(f"line {number} has more than {LINE_BYTES_MAX} bytes: no variable is so large")
            name, value = _parse_untrusted(line, number)
            await _store_new(state, name, value, replaces)
            count += 1
        return count

    click.echo(f"{_with_state(storage, work)} variables stored")


def copy(source: str, target: str, replaces: bool) -> None:
    """Copy all variables."""

    async def work(state: State) -> int:
        async with open_storage(target) as storage:
            other, count = State(storage), 0
            for name in sorted(await state.names()):
                variable = await state.fetch(name)
                if variable.is_stored:
                    await _store_new(other, name, variable.value, replaces)
                    count += 1
            return count

    click.echo(f"{_with_state(source, work, create=False)} variables copied")


async def _store_new(state: State, name: str, value: bytes, replaces: bool) -> None:
    variable = await state.fetch(name)
    if variable.is_stored and not replaces:
        raise Failure(f"there is a variable '{printable(name)}' already: --replace")
    await state.store(variable.mutate(value))


def row_of(variable: Variable) -> dict[str, Any]:
    """Name, version and value, as text or else in base 64."""
    head = {"name": variable.name, "version": variable.version.hex()}
    try:
        return {**head, "value": variable.value.decode()}
    except UnicodeDecodeError:
        return {**head, "value_base64": base64.b64encode(variable.value).decode()}


def _parse_untrusted(line: bytes, number: int) -> tuple[str, bytes]:
    try:
        row: Mapping[str, Any] = json.loads(line.decode())
        name, text = row["name"], row.get("value")
        value = base64.b64decode(row["value_base64"], validate=True) if text is None else text.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedError(f"line {number} is not a variable of a dump") from error
    if not isinstance(name, str):
        raise MalformedError(f"line {number} has no name")
    return name, value


def _expected(found: Variable, expected: str | None) -> Variable:
    if expected is None:
        return found
    try:
        version = bytes.fromhex(expected)
    except ValueError as error:
        raise click.UsageError(f"--version {expected} is not hexadecimal") from error
    if len(version) != VERSION_BYTES:
        raise click.UsageError(f"--version {expected} has not {VERSION_BYTES} bytes")
    return Variable(found.name, found.value, version, is_stored=True)


def _with_state(storage: str, work: Callable[[State], Awaitable[ResultT]], *, create: bool = True) -> ResultT:
    async def opened() -> ResultT:
        async with open_storage(storage, create=create) as found:
            return await work(State(found))

    return event_loop.run(opened)

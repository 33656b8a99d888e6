"""The work of `virtuallog schema`: the schemas of all that nodes serve, and a page about them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.register import FORMAT_GUARDED
from virtuallog.contract.schema import load, path_of
from virtuallog.contract.versions import SPOKEN
from virtuallog.plugins import all_interfaces, loglet_providers, metastore_provider
from virtuallog.rpc.protocol.node import NODE
from virtuallog.runtime.file_errors import file_errors
from virtuallog_database.control.wire import INTERFACES
from virtuallog_server.cli.common.failures import Failure

README: Final = "README.md"
HEAD: Final = """# Schemas of virtuallog {software}

Protocol versions {spoken.first} to {spoken.last}, register format {register}. Written by `virtuallog schema`.

All interfaces are those of one object, the bootstrap of a connection: open it as `Node`, then cast it. Handshake, calls, errors and
limits are in docs/reference/wire.md of the project. Ids and numbers of fields never change; fields and methods are only added. The
only import is `/capnp/c++.capnp`, which every Cap'n Proto has. Go needs two annotations more for each file (`$Go.package`,
`$Go.import`).

| file | id | interface, and what a client may call |
|---|---|---|
"""


def interfaces() -> list[Interface]:
    """All interfaces that nodes serve, those of each installed kind of loglets among them."""
    return [NODE, *all_interfaces(loglet_providers(), metastore_provider()), *INTERFACES]


def schema_files() -> dict[str, bytes]:
    """The files by name.

    Raises:
        Failure: two packages have a schema of the same name.
    """
    register = load("virtuallog.contract", "register.capnp").Register
    rows = {path_of(register): [_id(register), "the value of `register` in `control.capnp`"]}
    for interface in interfaces():
        rows.setdefault(path_of(interface.schema), [_id(interface.schema)]).append(_row(interface))
    names = [path.name for path in rows]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Failure(f"two installed packages have a schema {', '.join(sorted(twice))}")
    table = (f"| `{path.name}` | `{file_id}` | {'; '.join(found)} |\n" for path, (file_id, *found) in rows.items())
    head = HEAD.format(software=version("virtuallog"), spoken=SPOKEN, register=FORMAT_GUARDED)
    return {**{path.name: path.read_bytes() for path in rows}, README: (head + "".join(table)).encode()}


def _id(declared: Any) -> str:
    return f"@{declared.schema.node.scopeId:#x}"


def _row(interface: Interface) -> str:
    declared = interface.schema.schema.node
    name = declared.displayName[declared.displayNamePrefixLength :]
    methods = [each.name for each in interface.methods if interface is NODE or interface.role_of(each) is Role.CLIENT]
    return f"`{name}` {declared.id:#x}: {', '.join(methods) or 'nothing'}"


def write(folder: Path) -> None:
    """Write the files, and print their names.

    Raises:
        Failure: `folder` holds anything else; nothing was written.
        StorageError: it cannot be written.
    """
    files = schema_files()
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _check_others(folder, files)
        for name, content in files.items():
            (folder / name).write_bytes(content)
            click.echo(folder / name)


def _check_others(folder: Path, files: Mapping[str, bytes]) -> None:
    for path in sorted(folder.iterdir()):
        if path.name not in files or not path.is_file() or path.read_bytes() != files[path.name]:
            raise Failure(f"{path} is there already, and not a file of this version: give an empty directory")

"""The page of all options of nodes, consoles, clients and kinds of loglets."""

from __future__ import annotations

import ast
from typing import Final

from docs._generate.source import (
    WRITTEN,
    UnknownValueError,
    cell,
    class_named,
    docstring,
    documented,
    first_paragraph,
    table,
    value_of,
)
from virtuallog.contract.provider import SupportsSettings
from virtuallog.plugins import loglet_providers
from virtuallog.runtime.toml import KeyPath
from virtuallog_server.config.environment import PEERS, Variable, variables

HEAD: Final = """# Configuration

A node reads `node.toml` (`virtuallog serve --config node.toml`); [sample.toml](sample.toml) is such a file, with all options at
their defaults. A client reads `cluster.toml`, a console `console.toml` (`virtuallog console --config console.toml`). An unknown key, a bad value or a node listed twice is refused at the start, with
file and line. An option without a default is required.

"""
FILES: Final = (
    ("Node: node.toml", "virtuallog_server", "NodeConfig"),
    ("Node: [[peer]]", "virtuallog", "NodeAddress"),
    ("Node: [tls]", "virtuallog", "TlsFiles"),
    ("Node: [zookeeper]", "virtuallog_server", "ZooKeeperSettings"),
    ("Node: [[zookeeper.sasl_user]]", "virtuallog_server", "SaslUser"),
    ("Console: console.toml", "virtuallog_console", "ConsoleSettings"),
    ("Client: cluster.toml", "virtuallog", "ClusterFile"),
    ("Client: VirtualLogSettings", "virtuallog", "VirtualLogSettings"),
    ("Client: AppenderSettings", "virtuallog", "AppenderSettings"),
)
"""Heading, package and class of each table of options."""

VARIABLES: Final = """## Node: environment variables

Each option of a node has a variable: `VIRTUALLOG_SERVE_` and the names of its fields in capitals. It goes before the file; an option of the command goes
before both, and `VIRTUALLOG_SERVE_CONFIG` is `--config`. Without a file, `VIRTUALLOG_SERVE_ID` and `VIRTUALLOG_SERVE_DATA` are required. A *text* stands as
it is, any other value as in TOML: `7`, `true`, `["log-server"]`. Relative paths count from the folder of the file, without one from the working directory. A
value that cannot be used is refused at the start, and so is a variable of this prefix that is not listed here; the error names it. Nodes of `virtuallog up`
take no settings from the environment.

"""
"""Head of the table of variables."""


def page() -> str:
    """Options of nodes and clients, then those of each kind of loglets."""
    text = WRITTEN + HEAD
    for heading, package, name in FILES:
        module, node = class_named(name, package)
        text += f"## {heading}\n\n{first_paragraph(docstring(node))}\n\n"
        text += table(("option", "type", "default", "meaning"), _rows(module, node)) + "\n"
    rows = [(f"`{each.name}`", _option(each.keys), _form(each)) for each in variables().values()]
    text += f"{VARIABLES}{table(('variable', 'option', 'value'), rows)}\n"
    return text + "## Loglets: --set NAME=VALUE\n\n" + _kinds()


def _option(keys: KeyPath) -> str:
    *sections, last = keys
    return f"`[{'.'.join(map(str, sections))}] {last}`" if sections else f"`{last}`"


def _form(variable: Variable) -> str:
    if variable.keys == PEERS:
        return "like `--peers`: `1@host:port,2@host:port`"
    return "text" if variable.is_text else "TOML"


def _rows(module: str, node: ast.ClassDef) -> list[tuple[str, str, str, str]]:
    rows = []
    for field, doc in documented(node.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and not field.target.id.startswith("_")
        ):
            name, default = _name_and_default(module, field)
            rows.append((f"`{name}`", f"`{ast.unparse(field.annotation)}`".replace("|", "\\|"), default, cell(doc)))
    return rows


def _name_and_default(module: str, field: ast.AnnAssign) -> tuple[str, str]:
    assert isinstance(field.target, ast.Name)
    name, value = field.target.id, field.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "attrs.field":
        arguments = {each.arg: each.value for each in value.keywords}
        metadata = arguments.get("metadata")
        if isinstance(metadata, ast.Call) and isinstance(metadata.args[0], ast.Constant):
            name = f"[[{metadata.args[0].value!s}]]"
        value = arguments.get("default")
    if value is None:
        return name, ""
    try:
        return name, _toml(value_of(value, module))
    except UnknownValueError as unknown:
        return name, f"`{unknown}`"


def _toml(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case tuple():
            return f"`[{', '.join(_toml(each).strip('`') for each in value)}]`"
    return f"`{value}`"


def _kinds() -> str:
    text = "`virtuallog reconfigure --to KIND --set NAME=VALUE`. What is not set stays as it was.\n\n"
    for kind, provider in sorted(loglet_providers().items()):
        if isinstance(provider, SupportsSettings) and provider.settings:
            rows = [(f"`{name}`", cell(meaning)) for name, meaning in provider.settings.items()]
            text += f"### {kind}\n\n{table(('setting', 'meaning'), rows)}\n"
    return text

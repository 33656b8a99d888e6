"""The page of all metric families, found in the code by their constructors."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from prometheus_client import CollectorRegistry

from docs._generate.source import PACKAGES, WRITTEN, UnknownValueError, cell, module_names, parsed, table, value_of
from virtuallog_server.process.console.process_metrics import process_collectors

HEAD: Final = """# Metrics

All families that a node, or a [console](../howto/console.md), shows at `/metrics`, in the text format of Prometheus; [Monitor](../howto/monitor.md) says what to watch.
A client has the figures of its own appends in `VirtualLog.metrics()`. Figures begin at 0 with each start of the process.
Histograms of seconds have buckets from 50 us to 10 s.

"""
KINDS: Final = {
    "gauge": "gauge", "gauges": "gauge", "counter": "counter", "Counter": "counter", "Counters": "counter",
    "Histogram": "histogram", "Histograms": "histogram", "MetricFamily": "",
}  # fmt: skip
SECTIONS: Final = {
    "virtuallog_server.node": "Node",
    "virtuallog_server.process": "Process and disk",
    "virtuallog.reconfiguration": "Chain and reconfiguration",
    "virtuallog_metastore": "MetaStore",
    "virtuallog.client": "Appends of the node's own client",
    "virtuallog_loglets.native": "Native loglets: sequencers and LogServers",
    "virtuallog_loglets.wal": "Write-ahead log",
    "virtuallog_loglets.paxos": "Paxos loglets",
    "virtuallog_loglets.raft": "Raft loglets",
    "virtuallog_server.healing": "Healing",
    "virtuallog.rpc": "RPC",
    "virtuallog.contract": "Queues",
    "virtuallog_server.zookeeper": "Clients of ZooKeeper's protocol",
    "virtuallog_server.database": "Database: state",
    "virtuallog_database": "Database: replica, engines, snapshots",
    "virtuallog_console": "A console of a cluster: `virtuallog console`",
}
"""Prefix of a module -> heading of its families."""
NOTES: Final = Path(__file__).with_name("metric_notes.toml")
"""Values of labels, and what else operators should know about a family."""


@attrs.frozen
class Family:
    """A metric family, as the code defines it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    module: str


def page() -> str:
    """All families, in sections."""
    notes: dict[str, str] = tomllib.loads(NOTES.read_text())
    found = families()
    text = WRITTEN + HEAD
    for prefix, heading in SECTIONS.items():
        rows = [_row(each, notes) for each in found.values() if each.module.startswith(f"{prefix}.")]
        text += f"## {heading}\n\n{table(('name', 'type', 'labels', 'meaning'), rows)}\n"
    rows = [_row(each, notes) for each in _of_the_process()]
    text += f"## From the operating system and Python\n\n{table(('name', 'type', 'labels', 'meaning'), rows)}\n"
    unknown = set(notes) - set(found) - {each.name for each in _of_the_process()}
    assert not unknown, f"notes on metrics that do not exist: {unknown}"
    return text.rstrip() + "\n"


def families() -> dict[str, Family]:
    """By name, in the order of modules and lines."""
    found: dict[str, Family] = {}
    for module in module_names(*(package for package in PACKAGES if package != "pyspark_virtuallog")):
        if ".testing" not in module:
            for family in _Reader(module).read():
                found.setdefault(family.name, family)
    return found


def _row(family: Family, notes: Mapping[str, str]) -> tuple[str, str, str, str]:
    note = notes.get(family.name, "")
    return f"`{family.name}`", family.kind, ", ".join(family.labels), cell(f"{family.meaning} {note}")


def _of_the_process() -> list[Family]:
    """Families of the prometheus_client collectors that a node adds."""
    found = []
    CollectorRegistry()
    for collector in process_collectors():
        for metric in collector.collect():
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            labels = tuple(metric.samples[0].labels) if metric.samples else ()
            found.append(Family(name, metric.type, labels, f"{metric.documentation.rstrip('.')}.", "process"))
    return found


@attrs.define
class _Reader:
    """Finds constructors of families in one module, also behind helpers of that module and `partial`."""

    module: str

    def read(self) -> Iterator[Family]:
        for scope, names in self._scopes():
            for node in ast.walk(scope):
                if isinstance(node, ast.Call):
                    yield from self._family(node, names)

    def _scopes(self) -> Iterator[tuple[ast.AST, dict[str, Any]]]:
        """Functions with their local assignments, and all that is outside of functions."""
        tree = parsed(self.module)
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {id(inner) for each in functions for inner in ast.walk(each)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and id(node) not in inside:
                yield ast.Module(body=[ast.Expr(node)], type_ignores=[]), {}
        for function in functions:
            yield function, _assigned(function)

    def _family(self, call: ast.Call, names: dict[str, Any]) -> Iterator[Family]:
        name = _called(call)
        if name == "partial" and call.args and isinstance(call.args[0], ast.Name):
            call = ast.Call(func=call.args[0], args=call.args[1:], keywords=call.keywords)
            name = _called(call)
        helper = self._helper(name)
        if name in KINDS:
            try:
                yield self._told(call, names)
            except (UnknownValueError, IndexError):
                return
        elif helper is not None:
            bound = dict(zip((each.arg for each in helper.args.args), call.args, strict=False))
            bound |= {each.arg: each.value for each in call.keywords if each.arg}
            local = _assigned(helper) | {key: self._value(value, names) for key, value in bound.items()}
            for node in ast.walk(helper):
                if isinstance(node, ast.Call) and _called(node) in KINDS:
                    yield from self._family(node, local)

    def _value(self, node: ast.expr, names: dict[str, Any]) -> Any:
        try:
            return value_of(node, self.module, names)
        except UnknownValueError:
            return node

    def _helper(self, name: str) -> ast.FunctionDef | None:
        return next((n for n in parsed(self.module).body if isinstance(n, ast.FunctionDef) and n.name == name), None)

    def _told(self, call: ast.Call, names: dict[str, Any]) -> Family:
        constructor, arguments = _called(call), list(call.args)
        name, at = value_of(arguments[0], self.module, names), 2 if constructor == "MetricFamily" else 1
        meaning = value_of(arguments[at], self.module, names)
        if not isinstance(name, str) or not name.startswith("virtuallog_") or not isinstance(meaning, str):
            raise UnknownValueError(str(name))
        kind = KINDS[constructor]
        labels: tuple[str, ...] = ()
        if constructor == "MetricFamily":
            kind = ast.unparse(arguments[1]).rpartition(".")[2].lower()
            labels = _labels_of_samples(arguments[3], names)
        elif constructor == "gauge":
            labels = tuple(each.arg for each in call.keywords if each.arg)
        elif constructor in {"gauges", "Counters", "Histograms"}:
            told = value_of(arguments[2], self.module, names)
            labels = (told,) if isinstance(told, str) else tuple(told)
        suffix = "_total" if kind == "counter" and not name.endswith("_total") else ""
        return Family(name + suffix, kind, labels, meaning, self.module)


def _called(call: ast.Call) -> str:
    """`Counters` of `Counters.of(...)`, `gauge` of `metrics.gauge(...)`."""
    *before, last = ast.unparse(call.func).split(".")
    return before[-1] if last == "of" and before else last


def _assigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Any]:
    """Local names with the expressions that they are given."""
    return {
        node.targets[0].id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def _labels_of_samples(node: ast.expr, names: dict[str, Any]) -> tuple[str, ...]:
    """Keys of `Sample({"key": ...}, ...)`."""
    if isinstance(node, ast.Name) and isinstance(names.get(node.id), ast.expr):
        node = names[node.id]
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and _called(inner) == "Sample" and isinstance(inner.args[0], ast.Dict):
            return tuple(str(key.value) for key in inner.args[0].keys if isinstance(key, ast.Constant))
    return ()

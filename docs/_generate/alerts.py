"""The page of all alerts, from `share/prometheus/alerts.yaml`."""

from __future__ import annotations

from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from docs._generate.source import ROOT, WRITTEN, cell, table

RULES: Final = ROOT / "share" / "prometheus" / "alerts.yaml"
HEAD: Final = """# Alerts

The rules of `share/prometheus/alerts.yaml`; [Deploy](../howto/deploy.md#prometheus) says how Prometheus gets them. *for* is the time for which the condition must hold.

"""


def page() -> str:
    """One table for each group of rules."""
    text = WRITTEN + HEAD
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        text += f"## {group['name'].removeprefix('virtuallog-').capitalize()}\n\n"
        text += (
            table(("alert", "severity", "for", "condition", "meaning"), [_row(rule) for rule in group["rules"]]) + "\n"
        )
    return text.rstrip() + "\n"


def _row(rule: dict[str, Any]) -> tuple[str, ...]:
    labels, notes = rule["labels"], rule["annotations"]
    meaning = f"{notes['summary']} [What to do](../{notes['runbook'].removeprefix('docs/')})"
    return f"`{rule['alert']}`", labels["severity"], rule.get("for", ""), f"`{cell(rule['expr'])}`", cell(meaning)

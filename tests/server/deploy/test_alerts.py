"""The alerts in share/prometheus: each fires when it should and not else, as Debian's promtool computes it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml  # type: ignore[import-untyped]

from tests.debian import require
from tests.source_tree import ROOT

RULES = ROOT / "share" / "prometheus" / "alerts.yaml"
NODE = 'job="virtuallog", instance="n1"'
OTHER = 'job="virtuallog", instance="n2"'
BUCKETS = ("0.01", "0.02", "0.5", "1.0", "+Inf")


def sync_times(bucket: str, metric: str = "virtuallog_wal_sync_seconds") -> dict[str, str]:
    """A hundred syncs a minute, each as long as the bucket."""
    at = BUCKETS.index(bucket)
    return {
        f'{metric}_bucket{{{NODE}, le="{bound}"}}': f"0+{100 if place >= at else 0}x200"
        for place, bound in enumerate(BUCKETS)
    }


@attrs.frozen(kw_only=True)
class Case:
    """Samples of each minute, in promtool's notation, at which one alert fires, and some at which it does not."""

    fires: Mapping[str, str]
    quiet: Mapping[str, str]
    of_job: bool = False
    """True if the alert is about a whole cluster, not about one node."""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    """Labels beside job, instance and severity."""


def level(metric: str, fires: str, quiet: str, labels: str = "", **expected: str) -> Case:
    """An alert about one gauge of one node."""
    series = f"{metric}{{{NODE}{labels and ', '}{labels}}}"
    return Case(fires={series: fires}, quiet={series: quiet}, labels=expected)


def of_job(fires: Mapping[str, str], quiet: Mapping[str, str]) -> Case:
    return Case(fires=fires, quiet=quiet, of_job=True)


def two(metric: str, first: str, second: str, labels: str = "") -> dict[str, str]:
    """The metric at two nodes."""
    more = labels and f", {labels}"
    return {f"{metric}{{{NODE}{more}}}": first, f"{metric}{{{OTHER}{more}}}": second}


def share(metric: str, whole: str, used: str, labels: str = "") -> dict[str, str]:
    """A part of a hundred."""
    more = labels and f", {labels}"
    return {f"{metric}{{{NODE}{more}}}": used, f"{whole}{{{NODE}{more}}}": "100x200"}


def ordering(kind: str, *, sequencers: int = 0, coordinators: int = 0, leaders: int = 0) -> dict[str, str]:
    """Series of two nodes about sequencers, coordinators and leaders, while the active loglet is of this kind."""
    return {
        **two("virtuallog_chain_active", "1x200", "1x200", f'kind="{kind}"'),
        **two("virtuallog_sequencers_working", f"{sequencers}x200", "0x200"),
        **two("virtuallog_paxos_coordinators_leading", f"{coordinators}x200", "0x200"),
        **two("virtuallog_raft_replicas", f"{leaders}x200", "0x200", 'role="LEADER"'),
    }


MEMBERS = {f"virtuallog_metastore_members{{{NODE}}}": "3x200"}
METASTORE = 'role="metastore"'
WAL_QUEUE = 'queue="wal"'
CASES = {
    "NodeDown": level("up", "0x200", "1x200"),
    "NoMajority": of_job(
        {**MEMBERS, f"virtuallog_role_open{{{NODE}, {METASTORE}}}": "1x200"},
        {**MEMBERS, **two("virtuallog_role_open", "1x200", "1x200", METASTORE)},
    ),
    "RoleClosed": level("virtuallog_role_open", "0x200", "1x200", 'role="native"', role="native"),
    "ClockSkew": level("virtuallog_clock_seconds", "5+60x200", "0.5+60x200"),
    "CertificateExpires": level("virtuallog_certificate_expires_seconds", "864000x200", "8640000x200"),
    "CertificateEnds": level("virtuallog_certificate_expires_seconds", "86400x200", "864000x200"),
    "RpcComplaints": level("virtuallog_rpc_complaints_total", "0+120x200", "0+6x200", 'what="call refused"'),
    "QueueFull": Case(
        fires=share("virtuallog_queue_bytes", "virtuallog_queue_limit_bytes", "90x200", WAL_QUEUE),
        quiet=share("virtuallog_queue_bytes", "virtuallog_queue_limit_bytes", "70x200", WAL_QUEUE),
        labels={"queue": "wal"},
    ),
    "WalPoisoned": level("virtuallog_wal_poisoned", "1x200", "0x200"),
    "WalFull": level("virtuallog_raft_wal_full", "1x200", "0x200"),
    "DiskLow": Case(
        fires=share("virtuallog_disk_free_bytes", "virtuallog_disk_bytes", "9x200"),
        quiet=share("virtuallog_disk_free_bytes", "virtuallog_disk_bytes", "11x200"),
    ),
    "DiskFillsUp": level("virtuallog_disk_free_bytes", "1000-5x200", "1000-1x200"),
    "SlowDisk": Case(fires=sync_times("0.5"), quiet=sync_times("0.02")),
    "StuckDisk": Case(fires=sync_times("1.0"), quiet=sync_times("0.5")),
    "NoSequencer": of_job(ordering("native", sequencers=0), ordering("native", sequencers=1)),
    "ServerLags": level("virtuallog_sequencer_server_lag_entries", "0+500x200", "5000x200", 'server="2"', server="2"),
    "ChainVersionsDiffer": of_job(
        two("virtuallog_chain_version", "4x200", "5x200"), two("virtuallog_chain_version", "5x200", "5x200")
    ),
    "ReconfigurationsFail": of_job(
        two("virtuallog_reconfigurations_total", "0+1x200", "0x200", 'change="extend", outcome="failed"'),
        two("virtuallog_reconfigurations_total", "3x200", "0x200", 'change="extend", outcome="failed"'),
    ),
    "HealingOften": of_job(
        two("virtuallog_healing_actions_total", "0+1x200", "0x200", 'action="extend", outcome="done"'),
        two("virtuallog_healing_actions_total", "0+0.1x200", "0x200", 'action="extend", outcome="done"'),
    ),
    "RegisterLarge": Case(
        fires=share("virtuallog_register_bytes", "virtuallog_register_limit_bytes", "81x200"),
        quiet=share("virtuallog_register_bytes", "virtuallog_register_limit_bytes", "79x200"),
    ),
    "PaxosRecovering": level("virtuallog_paxos_recovered", "0x200", "1x200"),
    "PaxosElections": of_job(
        two("virtuallog_paxos_elections_total", "0+120x200", "0x200", 'outcome="elected"'),
        two("virtuallog_paxos_elections_total", "0+6x200", "0x200", 'outcome="elected"'),
    ),
    "RaftTerms": level("virtuallog_raft_term", "0+1x200", "0+1x3 5x200"),
    "DatabaseNotServing": level("virtuallog_database_state", "0x200", "1x200", 'state="serving"', state="serving"),
    "DatabaseLags": level("virtuallog_database_lag_positions", "0+500x200", "5000x200"),
    "TrimHeldBack": of_job(
        {
            **two("virtuallog_database_cursor", "0+100x200", "0+100x200"),
            **two("virtuallog_database_floor_position", "50x200", "50x200"),
        },
        {
            **two("virtuallog_database_cursor", "0+100x200", "0+100x200"),
            **two("virtuallog_database_floor_position", "0+90x200", "0+90x200"),
        },
    ),
    "ReplicasDiffer": of_job(
        {
            **two("virtuallog_database_checksum_made_position", "60x200", "50x200"),
            **two("virtuallog_database_checksum_agreed_position", "50x200", "50x200"),
        },
        {
            **two("virtuallog_database_checksum_made_position", "60x200", "50x200"),
            **two("virtuallog_database_checksum_agreed_position", "60x200", "50x200"),
        },
    ),
}
MORE_CASES = {
    "NoMajority": [
        # All nodes were restarted, and a minority is back: it does not know the register, and has no figures of it.
        of_job(
            {**two("up", "1x200", "0x200"), f"virtuallog_role_open{{{NODE}, {METASTORE}}}": "1x200"},
            {
                **two("up", "1x200", "1x200"),
                **two("virtuallog_role_open", "1x200", "1x200", METASTORE),
                f"virtuallog_metastore_members{{{NODE}}}": "3x200",
            },
        ),
        of_job(
            two("up", "0x200", "0x200"),
            {
                f"up{{{NODE}}}": "1x200",
                f"virtuallog_metastore_members{{{NODE}}}": "1x200",
                f"virtuallog_role_open{{{NODE}, {METASTORE}}}": "1x200",
            },
        ),
    ],
    "NoSequencer": [
        of_job(ordering("paxos", sequencers=1, leaders=1), ordering("paxos", coordinators=1)),
        of_job(ordering("raft", sequencers=1, coordinators=1), ordering("raft", leaders=1)),
        of_job(ordering("striped"), ordering("striped", coordinators=1)),
        of_job(ordering("native", coordinators=1, leaders=1), ordering("zookeeper")),
    ],
    "SlowDisk": [
        Case(fires=sync_times("0.5", metric), quiet=sync_times("0.02", metric))
        for metric in ("virtuallog_raft_wal_sync_seconds", "virtuallog_paxos_sync_seconds")
    ],
    "StuckDisk": [
        *(
            Case(fires=sync_times("1.0", metric), quiet=sync_times("0.5", metric))
            for metric in ("virtuallog_raft_wal_sync_seconds", "virtuallog_paxos_sync_seconds")
        ),
        *(
            # A sync that does not end is in no histogram. Short ones are met now and then.
            level(f"virtuallog_{disk}_writing_seconds", "1+60x200", "0x3 0.6 0x200")
            for disk in ("wal", "raft_wal", "paxos")
        ),
    ],
}
"""More cases of the same rules: other causes, and loglets of other kinds that take the appends."""
AT = "65m"
"""When promtool looks: longer than any rule waits."""
FINE_STEPS = {"ServerLags": "10s", "DatabaseLags": "10s", "RaftTerms": "20s"}
"""Rules about changes within a minute or some need samples at such steps."""


def rules() -> dict[str, dict[str, Any]]:
    """The rules by name, without the prefix."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"].removeprefix("Virtuallog"): rule for group in groups for rule in group["rules"]}


def rule_test(name: str, case: Case, rule: Mapping[str, Any], *, fires: bool) -> dict[str, Any]:
    """One test of promtool."""
    labels = {"severity": rule["labels"]["severity"], "job": "virtuallog", **case.labels}
    if not case.of_job:
        labels["instance"] = "n1"
    expected = [{"exp_labels": labels, "exp_annotations": rule["annotations"]}] if fires else []
    step = FINE_STEPS.get(name, "1m")
    series = case.fires if fires else case.quiet
    return {
        "name": f"{name} {'fires' if fires else 'is quiet'}",
        "interval": step,
        "input_series": [{"series": each, "values": values.replace("x200", "x400")} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": AT, "alertname": f"Virtuallog{name}", "exp_alerts": expected}],
    }


@pytest.fixture
def promtool() -> str:
    require("Prometheus", lambda: shutil.which("promtool") is not None, "prometheus")
    return "promtool"


@pytest.mark.slow
def test_each_alert_fires_when_it_should_and_not_else(promtool: str, tmp_path: Path) -> None:
    """Two cases for each rule, on both sides of its threshold; a rule without a case makes this test fail. What is about appends or disks
    has such cases for each kind of loglet."""
    found = rules()
    assert CASES.keys() == found.keys()
    cases = [*CASES.items(), *((name, case) for name, more in MORE_CASES.items() for case in more)]
    tests = [rule_test(name, case, found[name], fires=fires) for name, case in cases for fires in (True, False)]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))

    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_the_dashboard_ask_for_documented_figures() -> None:
    """tests/server/process/console/test_cluster_metrics.py compares the documents with the exposition of real nodes."""
    documented = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    for name, rule in rules().items():
        asked = {re.sub(r"_bucket$", "", each) for each in re.findall(r"virtuallog_[a-z_]+", rule["expr"])}
        assert asked <= documented, name
        assert asked or "up{" in rule["expr"], name


def test_each_alert_leads_to_a_chapter_that_exists() -> None:
    """The runbook is a heading of a page in docs/howto."""
    for name, rule in rules().items():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings}, name
        assert rule["labels"]["severity"] in {"warning", "critical"}, json.dumps(rule)

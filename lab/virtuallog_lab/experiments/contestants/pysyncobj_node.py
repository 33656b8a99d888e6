#!/usr/bin/env python3
"""One node of a PySyncObj cluster, run by the Python of an environment that has it; needs nothing of this project.

    pysyncobj_node.py JOURNAL SELF OTHER OTHER           addresses as host:port

Reads one JSON object per line from stdin, answers with one on stdout: {} asks whether it leads, {"outstanding", "size",
"seconds"} measures, with the client inside the leader: there is no hop between the two, which is in its favour.
"""
# This script has none of our ports, and PySyncObj no public word for "I lead".
# ruff: noqa: TID251, T201, SLF001

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from pysyncobj import SyncObj, SyncObjConf, replicated  # type: ignore[import-not-found]

WARM_UP_SECONDS = 1.0


class Log(SyncObj):  # type: ignore[misc]
    """Counts what is appended. The journal is what an append costs, the state machine costs nothing."""

    def __init__(self, journal: str, address: str, others: list[str]) -> None:
        # Without batches an entry leaves at once instead of every 100 ms: more, and sooner, at each of our loads.
        conf = SyncObjConf(
            journalFile=journal,
            fullDumpFile=journal + ".dump",
            appendEntriesUseBatch=False,
            dynamicMembershipChange=False,
        )
        super().__init__(address, others, conf)
        self.count = 0

    @replicated  # type: ignore[untyped-decorator]
    def append(self, payload: str) -> None:
        self.count += 1


class PySyncObjMeasurement:
    """A closed loop: each callback sends the next entry."""

    def __init__(self, log: Log, outstanding: int, size: int, seconds: float) -> None:
        self.log, self.payload = log, "x" * size
        self.begin = time.monotonic() + WARM_UP_SECONDS
        self.end = self.begin + seconds
        self.latencies: list[float] = []
        self.failures, self.flying = 0, outstanding
        self.seconds, self.done = seconds, threading.Event()
        for _ in range(outstanding):
            self.send()

    def send(self) -> None:
        began = time.monotonic()
        self.log.append(self.payload, callback=lambda _, error: self.answered(began, error))

    def answered(self, began: float, error: int) -> None:
        now = time.monotonic()
        self.failures += bool(error)
        if began >= self.begin and now <= self.end:
            self.latencies.append(now - began)
        if now < self.end:
            self.send()
        else:
            self.flying -= 1
            if not self.flying:
                self.done.set()

    def result(self) -> dict[str, Any]:
        finished = self.done.wait(self.seconds + 30)
        ordered = sorted(self.latencies) or [0.0]
        return {
            "ops_per_s": len(self.latencies) / self.seconds,
            "p50_ms": 1000 * ordered[len(ordered) // 2],
            "p99_ms": 1000 * ordered[int(len(ordered) * 0.99)],
            "failures": self.failures + (not finished),
        }


def main() -> None:
    journal, address, *others = sys.argv[1:]
    log = Log(journal, address, others)
    for line in sys.stdin:
        wanted = json.loads(line)
        if wanted:
            answer = PySyncObjMeasurement(log, wanted["outstanding"], wanted["size"], wanted["seconds"]).result()
        else:
            answer = {"leads": log.isReady() and log._isLeader()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

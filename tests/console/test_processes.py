"""A console in front of real nodes inside TLS, called by curl, while a node is killed."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.console.curl import COMMAND, Curl, console_process
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.types import NodeId
from virtuallog_server.local_cluster.certificates import files_of
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = pytest.mark.processes
PLAIN = ("-H", "Content-Type: text/plain")
ENTRIES = 60
KILLED_AT = 20
SEQUENCER = NodeId(2)


def owner(role: Role, name: str) -> Principal:
    return Principal(cluster="local", role=role, name=name)


async def test_appends_by_curl_survive_the_death_of_a_node(tmp_path: Path) -> None:
    """The sequencer is killed in the middle. Each acknowledged entry is at its position, once; those of an unknown outcome are there
    once or not at all; an open tail has seen everything in order, without a gap."""
    async with open_local_cluster(tmp_path / "cluster", base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        cluster.write_file()
        async with trio.open_nursery() as nursery:
            done = trio.Event()

            async def kill_in_the_middle() -> None:
                while not (tmp_path / "half").exists() and not done.is_set():
                    await cluster.clock.sleep(0.05)
                await cluster.kill(SEQUENCER)

            nursery.start_soon(kill_in_the_middle)
            await trio.to_thread.run_sync(partial(append_and_follow, tmp_path, cluster.file_path))
            done.set()


def append_and_follow(folder: Path, cluster: Path) -> None:
    """What scripts do beside a console: appends, and a tail."""
    certificates = cluster.parent / "certificates"
    names = ["--cluster", "local", "--clients", "console", "--host", "console=localhost"]
    subprocess.run([*COMMAND, "certificates", str(certificates), *names], check=True, capture_output=True)
    mine = files_of(certificates, owner(Role.CLIENT, "console"))
    identity = ["--certificate", str(mine.certificate), "--key", str(mine.key), "--authority", str(mine.authority)]
    with console_process(folder, "--cluster", str(cluster), "--host", "localhost", *identity) as url:
        curl = Curl(url, files_of(certificates, owner(Role.CLIENT, "app")))
        assert Curl(url).status("/v1/log") == 0, "no certificate"
        tail = subprocess.Popen(curl.command("/v1/tail?from=0&encoding=text"), stdout=subprocess.PIPE, text=True)
        moved = ["reconfigure", "--cluster", str(cluster), "--to", "native", "--set", f"sequencer={SEQUENCER}"]
        subprocess.run([*COMMAND, *moved], check=True, capture_output=True)
        before = json.loads(curl.body("/v1/log"))["version"]
        acknowledged, unknown = append_entries(curl, folder / "half")
        assert json.loads(curl.body("/v1/log"))["version"] > before, "the sequencer was replaced"
        found = read_all(curl)
        seen = follow(tail, len(found))

    assert {text: at for at, text in found} | acknowledged == {text: at for at, text in found}
    assert {text for _, text in found} - set(acknowledged) <= unknown
    assert len({text for _, text in found}) == len(found)
    assert seen == found


def append_entries(curl: Curl, half: Path) -> tuple[dict[str, int], set[str]]:
    """Positions of the acknowledged entries, and the entries of an unknown outcome."""
    acknowledged, unknown = dict[str, int](), set[str]()
    for number in range(ENTRIES):
        answer = json.loads(curl.body("/v1/entries", *PLAIN, "--data-binary", f"entry {number}"))
        if "position" in answer:
            acknowledged[f"entry {number}"] = answer["position"]
        else:
            assert answer["outcome"] == "unknown", answer
            unknown.add(f"entry {number}")
        if number == KILLED_AT:
            half.touch()
    assert len(acknowledged) > ENTRIES // 2
    return acknowledged, unknown


def read_all(curl: Curl) -> list[tuple[int, str]]:
    """All entries, page by page."""
    found, at = list[tuple[int, str]](), 0
    while True:
        page = json.loads(curl.body(f"/v1/entries?from={at}&limit=10&encoding=text"))
        found += [(entry["position"], entry["text"]) for entry in page["entries"]]
        at = page["next"]
        if at == page["tail"]:
            return found


def follow(tail: subprocess.Popen[str], count: int) -> list[tuple[int, str]]:
    """The first entries of a tail."""
    seen = list[tuple[int, str]]()
    assert tail.stdout is not None
    with tail:
        for line in tail.stdout:
            if line.startswith("data: ") and "text" in (data := json.loads(line.removeprefix("data: "))):
                seen.append((data["position"], data["text"]))
            if len(seen) == count:
                break
        tail.kill()
    return seen

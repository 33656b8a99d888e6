"""A node under a service manager: what a real datagram socket receives, and the unit that starts it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.debian import require
from tests.free_ports import free_ports
from tests.source_tree import ROOT
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.process.service_manager import STATUS_CHARACTERS_MAX, ServiceManager

PID = 4711
UNIT = ROOT / "share" / "systemd" / "virtuallog@.service"
EXPOSURE_MAX = 20
"""Tenths of the points of `systemd-analyze security`; 0 is a service that can do nothing, 100 one without any limit."""


@attrs.frozen
class Manager:
    """The other end of `$NOTIFY_SOCKET`."""

    path: str
    socket: socket.socket

    def received(self) -> list[str]:
        """Messages since the last call."""
        found = []
        self.socket.setblocking(False)
        try:
            while True:
                found.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            return found

    def wait_for(self, message: str) -> list[str]:
        """Messages up to this one."""
        found = list[str]()
        self.socket.settimeout(60)
        while message not in found:
            found.append(self.socket.recv(4096).decode())
        return found


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    """A manager that listens at a file, or at an abstract address as systemd in a container does."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(path if request.param == "file" else f"\0{path}")
        yield Manager(path if request.param == "file" else f"@{path}", bound)


async def test_the_manager_learns_the_state_of_the_node(manager: Manager, mock_clock: MockClock) -> None:
    """Ready at once, as other nodes wait for this one; then each change of the state, once; then the end."""
    missing = ["native is not open", "the register\nis not known"]
    notifier = ServiceManager.of_environment({"NOTIFY_SOCKET": manager.path}, PID)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run, SystemClock(), lambda: missing)
        await wait_all_tasks_blocked()
        assert manager.received() == ["READY=1", "STATUS=waiting: native is not open; the register is not known"]
        missing.clear()
        mock_clock.jump(5)
        await wait_all_tasks_blocked()
        mock_clock.jump(5)
        await wait_all_tasks_blocked()
        assert manager.received() == ["STATUS=ready"]
        nursery.cancel_scope.cancel()

    assert manager.received() == ["STOPPING=1"]


async def test_the_watchdog_is_fed_thrice_in_its_time(manager: Manager, mock_clock: MockClock) -> None:
    """From the event loop: as long as that does not turn, nothing is sent."""
    environment = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "6000000", "WATCHDOG_PID": str(PID)}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ServiceManager.of_environment(environment, PID).run, SystemClock(), list)
        await wait_all_tasks_blocked()
        assert manager.received() == ["READY=1", "STATUS=ready", "WATCHDOG=1"]
        for _ in range(3):
            mock_clock.jump(2)
            assert manager.received() == [], "the loop has not turned yet"
            await wait_all_tasks_blocked()
            assert manager.received() == ["WATCHDOG=1"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("watchdog", [{"WATCHDOG_USEC": "6000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
async def test_the_watchdog_of_another_process_is_not_fed(
    manager: Manager, mock_clock: MockClock, watchdog: dict[str, str]
) -> None:
    """A parent has left its variables behind, or wrong ones."""
    async with trio.open_nursery() as nursery:
        notifier = ServiceManager.of_environment({"NOTIFY_SOCKET": manager.path, **watchdog}, PID)
        nursery.start_soon(notifier.run, SystemClock(), list)
        await wait_all_tasks_blocked()
        mock_clock.jump(5)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert manager.received() == ["READY=1", "STATUS=ready", "STOPPING=1"]


async def test_a_manager_that_does_not_read_costs_nothing(manager: Manager, mock_clock: MockClock) -> None:
    """Its socket is full after some messages: the rest is dropped, the node goes on, and the newest status comes once there is room."""
    environment = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "3000000"}
    missing = ["x" * 2 * STATUS_CHARACTERS_MAX]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ServiceManager.of_environment(environment, PID).run, SystemClock(), lambda: missing)
        for _ in range(2000):
            mock_clock.jump(1)
            await wait_all_tasks_blocked()
        before = manager.received()
        missing.clear()
        mock_clock.jump(1)
        await wait_all_tasks_blocked()
        assert manager.received() == ["STATUS=ready", "WATCHDOG=1"]
        nursery.cancel_scope.cancel()
    assert len(before) < 2000
    assert before[1] == f"STATUS=waiting: {'x' * STATUS_CHARACTERS_MAX}"[: len("STATUS=") + STATUS_CHARACTERS_MAX]


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "@nowhere", "/" + "a" * 200])
async def test_a_node_without_a_manager_reports_to_none(address: str) -> None:
    """A start by hand, or a socket that is gone."""
    await ServiceManager.of_environment({"NOTIFY_SOCKET": address}, PID).run(SystemClock(), list)


@pytest.mark.processes
def test_a_real_node_reports_from_start_to_end(manager: Manager, tmp_path: Path) -> None:
    """It listens once it is ready, is fed to the watchdog until SIGTERM, and ends with 0."""
    place = ("--id", "1", "--data", str(tmp_path / "data"), "--peers", f"1@127.0.0.1:{(port := free_ports(1))}")
    environment = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000"}
    command = ["env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-m"]
    with subprocess.Popen([*command, "virtuallog_server", "serve", *place]) as node:
        assert manager.wait_for("READY=1") == ["READY=1"]
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
        manager.wait_for("STATUS=ready")
        manager.wait_for("WATCHDOG=1")
        node.send_signal(signal.SIGTERM)
        manager.wait_for("STOPPING=1")
        assert node.wait(60) == 0
    shutil.rmtree(tmp_path / "data")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit of node 1, with a program that exists."""
    require("systemd", lambda: shutil.which("systemd-analyze") is not None, "systemd")
    path = tmp_path / "virtuallog@1.service"
    path.write_text(UNIT.read_text().replace("/opt/virtuallog/bin/virtuallog", sys.executable))
    return path


def test_the_unit_has_no_fault_that_systemd_knows(unit: Path) -> None:
    """Unknown keys, values that cannot be, programs that are not there: `systemd-analyze verify` says nothing."""
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_can_do_little_beyond_its_work(unit: Path) -> None:
    """`systemd-analyze security` counts the rights that are left."""
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    open_unit = unit.with_name("virtuallog@2.service")
    open_unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert subprocess.run([*command[:-1], open_unit], capture_output=True, check=False).returncode != 0


def test_the_unit_restarts_a_node_unless_it_was_started_wrong() -> None:
    """And its watchdog is patient: a sync of a busy disk takes seconds."""
    lines = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#")

    assert (lines["Type"], lines["Restart"], lines["RestartPreventExitStatus"]) == ("notify", "always", "2")
    assert int(lines["WatchdogSec"].removesuffix("s")) >= 30


def test_the_unit_fits_the_documented_commands() -> None:
    """`install -D` makes the folder of the config, root's, for all to enter; systemd leaves it as it is, and complains about another mode. A
    reload needs no program beyond a shell."""
    settings = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#")

    assert settings["ConfigurationDirectoryMode"] == "0755"
    assert settings["ExecReload"] == "/bin/sh -c 'kill -HUP ${MAINPID}'"

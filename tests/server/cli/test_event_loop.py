"""The event loop of a command: ended by SIGTERM it removes what it has made for itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from virtuallog_server.cli.common import event_loop

SCRIPT = """
import click, signal, sys, trio
from pathlib import Path
from virtuallog.runtime.scratch_folder import scratch_folder
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import translated
{ignored}
async def work():
    with scratch_folder("history", Path(sys.argv[1])):
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                print("begun", flush=True)
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
                print("released", flush=True)
@click.command()
def main():
    with translated():
        event_loop.run(work)
main(sys.argv[2:])
"""


@pytest.mark.parametrize("ignored", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)"], ids=["", "in the background"])
def test_sigterm_ends_a_command_in_order(tmp_path: Path, ignored: str) -> None:
    """Also a background job of a shell, which ignores SIGINT. As sent by `timeout`, systemd, and the console for a question that takes too long: holds are released, and no scratch folder is left."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(ignored=ignored), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n" and len(list(tmp_path.iterdir())) == 1
        process.terminate()
        assert process.stdout.read() == "released\n"

    assert process.returncode == 130 and list(tmp_path.iterdir()) == []


def test_the_handler_of_the_process_is_put_back() -> None:
    """A caller that runs commands within its own process keeps its handler, also after an error."""

    async def fails() -> None:
        raise ZeroDivisionError

    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(ZeroDivisionError):
            event_loop.run(fails)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, former)

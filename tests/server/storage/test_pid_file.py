"""The file that names the process in a data directory."""

from __future__ import annotations

import os
from pathlib import Path

from virtuallog_server.storage import pid_file
from virtuallog_server.storage.data_directory import open_data_directory


async def test_a_number_that_another_process_has_now_names_nobody(tmp_path: Path) -> None:
    """A node was killed, and its number given away: nothing runs in the directory, and `up` waits for nothing."""
    async with open_data_directory(tmp_path):
        assert pid_file.find(tmp_path) == os.getpid()
    assert pid_file.read(tmp_path) is None

    (tmp_path / pid_file.NAME).write_text(f"{os.getppid()}\n")
    assert pid_file.find(tmp_path) is None
    (tmp_path / "LOCK").unlink()
    assert pid_file.find(tmp_path) is None

"""Addresses of the console: refusals before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_server.cli import main
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.process.process import serve


@pytest.mark.parametrize("address", ["0.0.0.0:8001", "[::]:8001", "example.org:8001"])
def test_a_console_that_others_could_reach_is_refused(tmp_path: Path, address: str) -> None:
    """It has no authentication, so it is for this machine only; the data directory is not touched."""
    config = NodeConfig(id=1, data=tmp_path / "data", console=address)

    with pytest.raises(InvalidSettingError, match="only loopback addresses"):
        serve(config)
    assert not config.data.exists()


def test_an_address_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    """`--console` wants host:port."""
    result = CliRunner().invoke(main, ["serve", "--id", "1", "--data", str(tmp_path), "--console", "8001"])

    assert result.exit_code == 2
    assert "'8001' is not host:port" in result.stderr

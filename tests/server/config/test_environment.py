"""Settings of a node in environment variables: one for each option, before the file and behind the command's options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from tests.server.config.test_config_file import CONFIG
from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.errors import InvalidSettingError
from virtuallog_server.cli import main
from virtuallog_server.config.config_file import StartOptions, amend
from virtuallog_server.config.environment import PREFIX, overrides, variables, without_settings
from virtuallog_server.config.node_config import NodeConfig, node_config_of, read_node_config

FILE = 'id = 2\ndata = "d"\nlisten = "127.0.0.1:7002"\nlog_level = "debug"\nprotocol = 1\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(FILE)
    return path


def spelled(value: Any) -> str:
    """The value of a variable, as an operator writes it."""
    match value:
        case str() | Path():
            return str(value)
        case bool() | int() | float():
            return json.dumps(value)
        case (NodeAddress(), *_):
            return ",".join(map(str, value))
        case _ if value and attrs.has(type(value[0])):
            tables = (attrs.asdict(each) for each in value)
            return (
                f"[{', '.join('{' + ', '.join(f'{k} = {json.dumps(v)}' for k, v in t.items()) + '}' for t in tables)}]"
            )
    return json.dumps(value)


def as_environment(settings: Any, prefix: str = PREFIX) -> dict[str, str]:
    """Variables for all fields of a config, sections included, by the rule of the reference."""
    found = dict[str, str]()
    for field in attrs.fields(type(settings)):
        name, value = f"{prefix}{field.name.upper()}", getattr(settings, field.name)
        if attrs.has(type(value)):
            found |= as_environment(value, f"{name}_")
        else:
            found[name] = spelled(value)
    return found


def test_every_option_has_a_variable() -> None:
    """A config without any default, given by variables alone, is the same config. A new option is in it, or this test fails."""
    environment = as_environment(CONFIG)

    assert environment.keys() == variables().keys()
    assert node_config_of(overrides(environment)) == CONFIG


def test_no_two_options_share_a_variable() -> None:
    """Fields of sections and of the sections in them may not run into one name."""
    assert len({each.keys for each in variables().values()}) == len(variables())


def test_a_variable_goes_before_the_file(file: Path) -> None:
    """The rest stays as the file has it, and paths count from its folder."""
    environment = {
        "VIRTUALLOG_SERVE_ID": "3",
        "VIRTUALLOG_SERVE_DATA": "e",
        "VIRTUALLOG_SERVE_ZOOKEEPER_LISTEN": "[::1]:1",
    }
    config = read_node_config(file, overrides(environment))

    assert (config.id, config.data, config.log_level) == (3, file.parent / "e", "debug")
    assert config.zookeeper is not None
    assert config.zookeeper.listen == "[::1]:1"


def test_a_shared_file_may_leave_out_what_each_node_has_for_itself(tmp_path: Path) -> None:
    """Pods of a StatefulSet have one file, and numbers of their own."""
    shared = tmp_path / "node.toml"
    shared.write_text('data = "/data"\n[[peer]]\nid = 1\naddress = "a:1"\n[[peer]]\nid = 2\naddress = "b:1"\n')

    assert read_node_config(shared, overrides({"VIRTUALLOG_SERVE_ID": "2"})).id == 2


def test_an_option_of_the_command_goes_before_both(file: Path) -> None:
    """It is written into the file, the variable is not: the next start may have another environment."""
    environment = {"VIRTUALLOG_SERVE_CONSOLE": "127.0.0.1:1", "VIRTUALLOG_SERVE_HEALING": "off"}
    amended = amend(file, StartOptions(console="127.0.0.1:2"), overrides(environment))
    amended.write()

    assert (amended.config.console, amended.config.healing) == ("127.0.0.1:2", "off")
    assert file.read_text() == f'console = "127.0.0.1:2"\n{FILE}'


def test_a_section_of_variables_is_not_taken_for_one_of_the_file(file: Path) -> None:
    """`--zookeeper` still gets its section in the file."""
    amended = amend(file, StartOptions(zookeeper="[::1]:1"), overrides({"VIRTUALLOG_SERVE_ZOOKEEPER_COPIES": "2"}))
    amended.write()

    assert amended.config.zookeeper is not None
    assert (amended.config.zookeeper.listen, amended.config.zookeeper.copies) == ("[::1]:1", 2)
    assert file.read_text() == f'{FILE}\n[zookeeper]\nlisten = "[::1]:1"\n'


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LISTEN", "here", "'here' is not host:port"),
        ("ID", "one", "is no value of TOML"),
        ("ID", "1\ndata = 2", "is more than one value"),
        ("ID", "true", "must be a whole number, not True"),
        ("LOG_JSON", "1", "must be true or false"),
        ("ROLES", '["cook"]', "'cook' is no role"),
        ("PEERS", "1@nowhere", "'nowhere' is not host:port"),
        ("PEERS", "1@a:1", "the list of peers lacks this node, 2"),
        ("ZOOKEEPER_TICK_MS", "0", "must be at least 1, not 0"),
        ("DATA", "", "is empty"),
        ("COLOUR", "3", "no option of a node has this variable"),
    ],
)
def test_a_bad_value_names_its_variable(file: Path, name: str, value: str, reason: str) -> None:
    """Not the file, where nothing is wrong."""
    with pytest.raises(InvalidSettingError) as refused:
        read_node_config(file, overrides({f"VIRTUALLOG_SERVE_{name}": value}))
    assert refused.value.where == f"VIRTUALLOG_SERVE_{name}"
    assert reason in refused.value.reason


def test_a_bad_value_of_the_file_still_has_its_line(file: Path) -> None:
    """Variables beside it do not matter."""
    file.write_text(f"{FILE}connections_max = 1\n")

    with pytest.raises(InvalidSettingError, match=r"node.toml:6: connections_max"):
        read_node_config(file, overrides({"VIRTUALLOG_SERVE_ID": "3"}))


def test_a_password_is_not_repeated_in_an_error() -> None:
    """Errors end up in logs."""
    with pytest.raises(InvalidSettingError) as refused:
        overrides({"VIRTUALLOG_SERVE_ZOOKEEPER_SASL_USERS": '[{name = "a", password = "secret"]'})
    assert "secret" not in str(refused.value)


def test_without_a_file_a_node_listens_where_its_peers_know_it() -> None:
    """As with `--peers`, unless the environment says otherwise: in a container it listens at every address."""
    environment = {"VIRTUALLOG_SERVE_ID": "2", "VIRTUALLOG_SERVE_DATA": "/d", "VIRTUALLOG_SERVE_PEERS": "1@a:1,2@b:2"}

    assert node_config_of(overrides(environment)).listen == "b:2"
    assert node_config_of(overrides({**environment, "VIRTUALLOG_SERVE_LISTEN": "0.0.0.0:2"})).listen == "0.0.0.0:2"


def test_the_command_reads_the_environment(tmp_path: Path) -> None:
    """`serve` without options: a bad variable is named, and so is a file of which nothing is known."""
    place = {"VIRTUALLOG_SERVE_ID": "1", "VIRTUALLOG_SERVE_DATA": str(tmp_path / "data")}
    bad = CliRunner().invoke(main, ["serve"], env={**place, "VIRTUALLOG_SERVE_PROBES": "9001"})
    no_file = CliRunner().invoke(main, ["serve"], env={"VIRTUALLOG_SERVE_CONFIG": str(tmp_path / "none.toml")})

    assert (bad.exit_code, bad.stderr) == (1, "virtuallog: VIRTUALLOG_SERVE_PROBES: '9001' is not host:port\n")
    assert "none.toml: cannot be read" in no_file.stderr
    assert not (tmp_path / "data").exists()


def test_a_variable_that_was_never_set_makes_no_data_directory_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`VIRTUALLOG_SERVE_DATA: ${VOLUME}` in a compose file is empty without VOLUME. So is `--data "$VOLUME"`."""
    monkeypatch.chdir(tmp_path)
    place = {"VIRTUALLOG_SERVE_ID": "1", "VIRTUALLOG_SERVE_LISTEN": "0.0.0.0:1"}  # which is refused later
    variable = CliRunner().invoke(main, ["serve"], env={**place, "VIRTUALLOG_SERVE_DATA": ""})
    option = CliRunner().invoke(main, ["serve", "--data", ""], env=place)

    assert "VIRTUALLOG_SERVE_DATA: is empty" in variable.stderr
    assert "--data: is empty" in option.stderr
    assert [variable.exit_code, option.exit_code] == [1, 2]
    assert list(tmp_path.iterdir()) == []


def test_nodes_of_up_take_no_settings_from_the_environment() -> None:
    """One number for all of them could not be."""
    assert without_settings({"VIRTUALLOG_SERVE_ID": "1", "VIRTUALLOG_CLUSTER": "c"}) == {"VIRTUALLOG_CLUSTER": "c"}


def test_a_config_without_a_file_lacks_what_is_required() -> None:
    """The number and the data directory have no default."""
    with pytest.raises(InvalidSettingError, match="data: is missing"):
        node_config_of(overrides({"VIRTUALLOG_SERVE_ID": "1"}))
    assert NodeConfig(id=1, data=Path("d")) == node_config_of(
        overrides({"VIRTUALLOG_SERVE_ID": "1", "VIRTUALLOG_SERVE_DATA": "d"})
    )

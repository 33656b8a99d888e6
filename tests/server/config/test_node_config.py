"""Config files: read strictly, and errors that lead to the line."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from virtuallog.client.cluster_file import ClusterFile, NodeAddress, read_cluster_file
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.runtime.toml import FieldError, locate
from virtuallog_server.config.node_config import NodeConfig, parse_peers, read_node_config

SAMPLE = Path(__file__).parents[3] / "docs/reference/sample.toml"


def write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_the_sample_file_lists_every_option_with_its_default(tmp_path: Path) -> None:
    """docs/reference/sample.toml, all of it commented in, says what an empty config says; and no option is missing."""
    text = SAMPLE.read_text()
    spelled_out = re.sub(r"^#(?=[a-z_]+ = )", "", text, flags=re.MULTILINE)
    config = read_node_config(write(tmp_path, spelled_out))

    assert config == NodeConfig(id=1, data=tmp_path / "data")
    keys = {str(field.metadata.get("toml", field.name)) for field in attrs.fields(NodeConfig)}
    listed = set(re.findall(r"^#?([a-z_]+) = ", text, flags=re.MULTILINE)) | set(re.findall(r"\[\[?(\w+)\]", text))
    assert keys == listed


def test_the_sample_file_can_be_used_as_it_is(tmp_path: Path) -> None:
    """Copied and started, the sample is a cluster of one node."""
    config = read_node_config(write(tmp_path, SAMPLE.read_text()))

    assert config.all_peers == (NodeAddress(id=1, address="127.0.0.1:7001"),)
    assert config.members == (1,)
    assert config.all_roles == ("sequencer", "log-server", "replica", "metastore")


HEAD = 'id = 1\ndata = "d"\n'
PEERS = '\n[[peer]]\nid = 1\naddress = "127.0.0.1:7001"\n'


@pytest.mark.parametrize(
    ("text", "line", "key", "reason"),
    [
        ("id = 1\ndata = ", None, "", "not TOML"),
        ("id = 1\n", 1, "data", "is missing"),
        (HEAD + "colour = 3\n", 3, "colour", "unknown key (known here: id, data, listen, peer"),
        (HEAD + 'listen = "here"\n', 3, "listen", "'here' is not host:port"),
        (HEAD + 'listen = "127.0.0.1:70000"\n', 3, "listen", "is not host:port"),
        (HEAD + 'console = "8001"\n', 3, "console", "'8001' is not host:port"),
        ('id = "1"\ndata = "d"\n', 1, "id", "must be a whole number, not '1'"),
        ('id = 0\ndata = "d"\n', 1, "id", "must be between 1 and"),
        ("id = 1\ndata = 7\n", 2, "data", "must be text in quotes"),
        (HEAD + "log_json = 1\n", 3, "log_json", "must be true or false"),
        (HEAD + 'log_level = "loud"\n', 3, "log_level", "'loud' is no level"),
        (HEAD + 'roles = ["log-server",\n "cook"]\n', 3, "roles", "'cook' is no role"),
        (HEAD + "metastore = [9]\n", 3, "metastore", "9 is no peer"),
        (HEAD + "peer = 3\n", 3, "peer", ""),
        (HEAD + "\n[[peer]]\nid = 2\naddress = 'x:1'\n", 4, "peer", "lacks this node, 1"),
        (HEAD + PEERS + PEERS, 9, "peer.id", "node 1 is listed twice"),
        (HEAD + PEERS + "port = 3\n", 7, "peer.port", "unknown key"),
        (HEAD + PEERS + PEERS.replace("127.0.0.1:7001", "nowhere"), 10, "peer.address", "'nowhere' is not host:port"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_key(
    tmp_path: Path, text: str, line: int | None, key: str, reason: str
) -> None:
    """The error names the place for the author of the file."""
    path = write(tmp_path, text)

    with pytest.raises(InvalidSettingError) as caught:
        read_node_config(path)

    expected = f"{path}:{line}: {key}" if line else str(path)
    assert caught.value.where == expected
    assert reason in caught.value.reason


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is a config error like any other."""
    with pytest.raises(InvalidSettingError, match=r"cluster.toml: cannot be read"):
        read_cluster_file(tmp_path / "cluster.toml")


def test_a_cluster_file_reads_back_as_it_was_spelled(tmp_path: Path) -> None:
    """Clients read the cluster file that `up` writes."""
    cluster = ClusterFile(nodes=parse_peers("1@127.0.0.1:7001, 2@[::1]:7002"))
    path = tmp_path / "cluster.toml"
    path.write_text(cluster.spell())

    assert read_cluster_file(path) == cluster


def test_a_cluster_file_without_nodes_is_refused(tmp_path: Path) -> None:
    """A seed list without a node is refused."""
    path = tmp_path / "cluster.toml"
    path.write_text("node = []\n")

    with pytest.raises(InvalidSettingError, match="needs at least one node"):
        read_cluster_file(path)


@pytest.mark.parametrize("text", ["", "127.0.0.1:7001", "1@", "x@127.0.0.1:1", "0@127.0.0.1:1", "1@127.0.0.1:1,"])
def test_peers_on_the_command_line_are_checked_too(text: str) -> None:
    """`--peers` takes id@host:port, separated by commas."""
    with pytest.raises(FieldError):
        parse_peers(text)


def test_locate_knows_tables_lists_and_comments() -> None:
    """Line numbers are right in the presence of headers, repeated tables, quoted keys and comments."""
    text = "# a = 1\nb = 2\n[table.'inner']  # why\nc = 3\n[[list]]\nd = 4\n[[list]]\nd = 5\n"

    assert locate(text, ("b",)) == 2
    assert locate(text, ("table", "inner", "c")) == 4
    assert locate(text, ("list", 1, "d")) == 8
    assert locate(text, ("list", 0, "missing")) == 5
    assert locate(text, ("nowhere",)) == 1


def test_who_orders_and_stores_can_be_a_replica() -> None:
    """Configs that list both roles are older than the third. With one of the two alone it has to be listed."""

    def roles(*listed: str) -> tuple[str, ...]:
        return NodeConfig(id=1, data=Path("data"), roles=listed).all_roles[:-1]

    assert roles("log-server", "sequencer") == ("log-server", "sequencer", "replica")
    assert roles("log-server") == ("log-server",)
    assert roles("log-server", "replica") == ("log-server", "replica")
    assert roles("replica", "sequencer", "log-server") == ("replica", "sequencer", "log-server")


def test_a_node_that_listens_at_every_address_is_known_by_its_own(tmp_path: Path) -> None:
    """In a container a node listens at 0.0.0.0; other nodes and the list of servers for clients need an address that leads to it."""
    listening = 'listen = "0.0.0.0:7001"\n[tls]\ncertificate = "c"\nkey = "k"\nauthority = "a"\n'

    assert read_node_config(write(tmp_path, HEAD + listening + PEERS)).address == "127.0.0.1:7001"
    assert read_node_config(write(tmp_path, HEAD)).address == "127.0.0.1:7001"
    assert read_node_config(write(tmp_path, HEAD + 'listen = "127.0.0.1:7009"\n')).address == "127.0.0.1:7009"

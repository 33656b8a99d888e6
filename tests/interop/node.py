"""One node as kazoo's test suite starts it: writes a node.toml from the values that `kazoo_suite.py --start` fills in, and runs that node.

The same directory again is the same node again, with its data.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from virtuallog_server.config.node_config import read_node_config
from virtuallog_server.process import process

SUPER: Final = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
"""The super user of the suite; its password is "test"."""
_USER: Final = re.compile(r'user_(\w+)="([^"]*)"')

CONFIG: Final = """\
id = {id}
data = "{folder}/node"
listen = "127.0.0.1:{peer}"
log_level = "info"

[zookeeper]
listen = "127.0.0.1:{client}"
tls_listen = "127.0.0.1:{secure}"
admin_listen = "127.0.0.1:{admin}"
commands = ["*"]
tick_ms = 2000
read_only = true
superuser_digest = "{super}"

[zookeeper.tls]
certificate = "{pem}/cert.pem"
key = "{pem}/key.pem"
authority = "{pem}/ca.pem"
"""


@click.command()
@click.option("--id", "node", type=int, required=True)
@click.option("--folder", type=click.Path(path_type=Path), required=True)
@click.option("--peers", required=True, help="id@host:port, comma separated.")
@click.option("--client", type=int, required=True)
@click.option("--secure", type=int, required=True)
@click.option("--admin", type=int, required=True)
@click.option("--pem", type=click.Path(path_type=Path), required=True)
@click.option("--jaas", type=click.Path(path_type=Path), required=True)
def main(node: int, folder: Path, peers: str, client: int, secure: int, admin: int, pem: Path, jaas: Path) -> None:
    """Run that node until SIGTERM."""
    listed = dict(peer.split("@") for peer in peers.split(","))
    own = listed[str(node)].rpartition(":")[2]
    ports = {"client": client, "secure": secure, "admin": admin, "peer": own}
    text = CONFIG.format(id=node, folder=folder, pem=pem, super=SUPER, **ports) + _users(jaas)
    for number, address in listed.items():
        text += f'\n[[peer]]\nid = {number}\naddress = "{address}"\n'
    config = folder / "node.toml"
    config.write_text(text)
    process.serve(read_node_config(config))


def _users(jaas: Path) -> str:
    found = _USER.findall(jaas.read_text() if jaas.exists() else "")
    return "".join(f'\n[[zookeeper.sasl_user]]\nname = "{name}"\npassword = "{password}"\n' for name, password in found)


if __name__ == "__main__":
    main()

"""`virtuallog console`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.option("--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="A console.toml.")
@click.option(
    "--cluster",
    metavar="FILE",
    envvar="VIRTUALLOG_CLUSTER",
    show_envvar=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The cluster.toml that `virtuallog up` has written.",
)
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on.  [default: 127.0.0.1:8090]")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Name by which clients call it; repeatable.")
@click.option("--certificate", metavar="FILE", type=click.Path(path_type=Path), help="Certificate of the console.")
@click.option("--key", metavar="FILE", type=click.Path(path_type=Path), help="Key of the certificate.")
@click.option("--authority", metavar="FILE", type=click.Path(path_type=Path), help="Authority to trust.")
@click.option("--proxy", multiple=True, metavar="ADDRESS", help="Address of a trusted proxy; repeatable.")
@click.option("--proxy-header", metavar="NAME", help="Header with its user.  [default: X-Forwarded-User]")
@click.option("--admin", "admins", multiple=True, metavar="USER", help="User of the proxy who is admin; repeatable.")
@click.option("--loopback-admin", is_flag=True, default=None, help="Let callers from this machine be admins.")
@click.option("--mask", "masks", multiple=True, metavar="PATH", help="Paths of values never shown; repeatable.")
@click.option(
    "--priority", metavar="LEVEL", help="Share of busy processors: normal, low (a tenth) or idle.  [default: low]"
)
@click.option("--actions", is_flag=True, default=None, help="Let admins change the cluster.")
@click.option("--archives", metavar="URL", help="Place below which admins may archive segments.")
def console(
    config_file: Path | None,
    cluster: Path | None,
    certificate: Path | None,
    key: Path | None,
    authority: Path | None,
    **options: Any,
) -> None:
    """Serve a cluster over HTTP in the foreground, until Ctrl-C or SIGTERM: pages for a browser, and the log to append, read and follow.

    Each option takes the place of a setting of console.toml. Without a certificate only loopback addresses are served, and every
    caller has the role client, unless the options say more. docs/howto/console.md has the rest, docs/howto/http.md what to send.

    \b
    Examples:
        virtuallog console --cluster /tmp/log/cluster.toml
        virtuallog console --cluster /tmp/log/cluster.toml --actions --loopback-admin
        virtuallog console --config console.toml --listen 0.0.0.0:8443
    """
    from virtuallog.runtime.toml import FieldError
    from virtuallog_console.process import run_until_signalled
    from virtuallog_console.settings import ConsoleSettings, read_console_settings
    from virtuallog_server.cli.common import event_loop
    from virtuallog_server.cli.common.log_options import tls_files
    from virtuallog_server.cli.common.options import read_own_cluster

    if config_file is None and cluster is None:
        raise click.UsageError("name the cluster: --cluster FILE, VIRTUALLOG_CLUSTER=FILE, or --config FILE")
    tls = tls_files({"certificate": certificate, "key": key, "authority": authority})
    settings = read_console_settings(config_file) if config_file is not None else ConsoleSettings()
    try:
        settings = settings.with_options(cluster=cluster, tls=tls, **options)
    except FieldError as error:
        raise click.UsageError(f"{error.path[0]}: {error}") from error
    event_loop.run(run_until_signalled, settings, read_own_cluster(settings.cluster), _announce)


def _announce(url: str) -> None:
    click.echo(f"console: {url}")
    click.echo(f"try: curl {url}/v1/log")

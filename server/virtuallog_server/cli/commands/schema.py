"""`virtuallog schema`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for the files; made if it is missing.",
)
def schema(folder: Path) -> None:
    """Write the Cap'n Proto schemas of all that nodes serve, for clients in other languages.

    DIR gets the `.capnp` files, those of installed kinds of loglets among them, and a README.md with ids, methods and
    versions. It must be empty, or hold nothing but these very files.

    \b
    Example, with Debian's capnproto:
        virtuallog schema --out schema
        capnp compile -oc++ --src-prefix=schema schema/*.capnp
    """
    from virtuallog_server.cli.cluster.schema_job import write

    write(folder)

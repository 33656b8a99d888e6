"""Options shared by the commands of `virtuallog spark`: master and configuration of Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

LOCAL: Final = "local[*]"
"""`pyspark_virtuallog.session.LOCAL`, which `--help` must not import."""
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def spark_options(command: CommandT) -> CommandT:
    """Add `--master` and `--conf`, passed to the command as `master` and `configuration`, a
    mapping."""
    with_configuration = click.option(
        "--conf", "configuration", metavar="K=V", multiple=True, callback=_configuration,
        help="A setting of Spark, such as spark.executor.memory=4g. May be repeated.",
    )(command)  # fmt: skip
    return click.option(
        "--master", metavar="URL", default=LOCAL, show_default=True, help="Master of Spark, as for `spark-submit`."
    )(with_configuration)


def _configuration(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = dict[str, str]()
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"'{one}' is not K=V")
        pairs[key] = value
    return pairs

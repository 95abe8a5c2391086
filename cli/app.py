"""Build the program `shardclock` with Typer: the general options, and the commands."""

import gc
from typing import Annotated

import typer

from shardclock_server.cli.commands import Commands
from shardclock_server.cli.version import print_version

app = typer.Typer(
    name="shardclock",
    cls=Commands,
    help="A durable timer cluster: Postgres stores each timer, and shards fire it exactly once and on time.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and exit.")
    ] = False,
) -> None:
    gc.enable()  # Enable garbage collection again: the command's module is imported now.

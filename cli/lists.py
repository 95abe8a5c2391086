"""Register a command as the `list` of its group; print a note on stderr if a list is empty or incomplete."""

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import typer

from shardclock_server.cli.output import print_note

Command = TypeVar("Command", bound=Callable[..., int])


def print_none(many: str, of_all: str, *, filtered: bool) -> None:
    """Print a note for an empty list: `of_all` if no filter is set, otherwise the note that no row matches."""
    print_note(f"there are no such {many}" if filtered else of_all)


def print_more(way_on: str) -> None:
    """Print that more rows may exist, and the option for the next page."""
    print_note(f"there may be more rows: repeat the command with {way_on}")


def print_if_full(found: Sequence[object], limit: int, *, most: int | None = None, way_on: str = "") -> None:
    """Print that more rows may exist if the list has `limit` rows; `most` is the highest allowed limit."""
    if len(found) < limit:
        return
    if way_on:
        print_more(way_on)
    elif limit == most:
        print_note(f"there may be more rows: at most {limit:,} are listed")
    else:
        print_more("a higher --limit")


def lists(group: typer.Typer) -> Callable[[Command], Command]:
    """Register a command as the `list` of a group, and as the default command of the group."""

    def both(command: Command) -> Command:
        def alone(context: typer.Context, **given: Any) -> int | None:
            return command(**given) if context.invoked_subcommand is None else None

        context = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        # Typer reads a command's options from the signature and the annotations of the function.
        alone.__signature__ = Signature([context, *signature(command).parameters.values()])  # type: ignore[attr-defined]
        alone.__annotations__ = {"context": typer.Context, **command.__annotations__}
        group.callback()(alone)
        return group.command(name="list")(command)

    return both

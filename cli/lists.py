"""Make a command the list of its group; say on stderr that a list is empty, or that there is more."""

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import typer

from shardclock_server.cli.output import tell

Command = TypeVar("Command", bound=Callable[..., int])


def tell_none(many: str, of_all: str, *, filtered: bool) -> None:
    """Say that a list is empty: `of_all` if it has no filters, else that there are no such rows."""
    tell(f"there are no such {many}" if filtered else of_all)


def tell_more(way_on: str) -> None:
    """Say that a list may go on, and by which option."""
    tell(f"there may be more: the same with {way_on}")


def tell_if_full(found: Sequence[object], limit: int, *, most: int | None = None, way_on: str = "") -> None:
    """Say that there may be more if a list has as many rows as it may; `most` is the highest limit that is accepted."""
    if len(found) < limit:
        return
    if way_on:
        tell_more(way_on)
    elif limit == most:
        tell(f"there may be more: at most {limit:,} are listed")
    else:
        tell_more("a higher --limit")


def lists(group: typer.Typer) -> Callable[[Command], Command]:
    """Make a command the `list` of a group, and what the group does when its name stands alone."""

    def both(command: Command) -> Command:
        def alone(context: typer.Context, **given: Any) -> int | None:
            return command(**given) if context.invoked_subcommand is None else None

        context = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        # Typer reads what a command takes from its signature and its annotations.
        alone.__signature__ = Signature([context, *signature(command).parameters.values()])  # type: ignore[attr-defined]
        alone.__annotations__ = {"context": typer.Context, **command.__annotations__}
        group.callback()(alone)
        return group.command(name="list")(command)

    return both

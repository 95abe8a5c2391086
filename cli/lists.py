"""Print a list, with a note if it is empty or incomplete; register a command as the `list` of its group."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import typer

from shardclock_server.cli.output import DONE, print_json, print_note, print_table

Command = TypeVar("Command", bound=Callable[..., int])


def print_list(
    found: Mapping[str, object],
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    none: str | None = None,
    more: str = "",
    as_json: bool,
) -> int:
    """Print `found` as JSON, or its rows as a table; return the exit code.

    `found` has the list under its plural name; a list in pages also has `next_page`. `none` is the note instead of an
    empty table, and `more` the note that more rows may exist.
    """
    if as_json:
        print_json(found)
        return DONE
    if rows or none is None:
        print_table("", columns, rows)
    else:
        print_note(none)
    if more:
        print_note(more)
    return DONE


def none_note(many: str, of_all: str, *, filtered: bool) -> str:
    """Return the note for an empty list: `of_all` if no filter is set, otherwise the note that no row matches."""
    return f"there are no such {many}" if filtered else of_all


def more_note(way_on: str) -> str:
    """Return the note that more rows may exist, with the option for the next page."""
    return f"there may be more rows: repeat the command with {way_on}"


def page_note(page: str | None) -> str:
    """Return the note with the option for the next page, or no note after the last page."""
    return "" if page is None else more_note(f"--page {shlex.quote(page)}")


def full_note(found: Sequence[object], limit: int, *, most: int | None = None) -> str:
    """Return the note that more rows may exist if the list has `limit` rows; `most` is the highest allowed limit."""
    if len(found) < limit:
        return ""
    return f"there may be more rows: at most {limit:,} are listed" if limit == most else more_note("a higher --limit")


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

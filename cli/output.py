"""Print tables for people, JSON for programs, and one line for errors."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from shardclock.api.codes import NOT_DONE
from shardclock.jsonb import stored_json
from shardclock.log import LogRecord

DONE = 0
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Fields with JSON text from the database, which are printed as JSON.
JSON_TEXTS = ("payload", "detail", "failures", "config", "policy", "result", "parameters")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

# Print texts literally: without emoji codes such as `:ok:`, and without markup such as `[b]`.
out = Console(highlight=False, emoji=False, markup=False)
err = Console(stderr=True, highlight=False, emoji=False, markup=False)


def print_note(message: str) -> None:
    """Print a message to stderr; a failed write is ignored."""
    with suppress(OSError):
        err.print(printable(message), soft_wrap=True)


def print_line(line: str, *, style: str | None = None) -> None:
    """Print a line to stdout without wrapping it, on a terminal of any width."""
    out.print(printable(line), style=style, soft_wrap=True)


def is_terminal() -> bool:
    """Return whether stdout is a terminal; rich would also return true for a pipe if FORCE_COLOR is set."""
    return out.file.isatty()


def printable(text: str, *, kept: str = "\n\t") -> str:
    """Escape control characters, so that a user's text can't move the terminal's cursor or break a table's row."""
    return CONTROL.sub(lambda found: found[0] if found[0] in kept else repr(found[0])[1:-1], text)


def print_json(value: Any) -> None:
    """Print one JSON value on its own line."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_done(message: str, shown: object = None, *, done: bool = True, as_json: bool) -> int:
    """Print the result of one change as a note, or `shown` as JSON; return the exit code.

    By default, the JSON output has the message, and whether the change is done.
    """
    if as_json:
        print_json({"message": message, "done": done} if shown is None else shown)
    else:
        print_note(message)
    return DONE if done else NOT_DONE


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A user's JSON value; it is printed unchanged, without a conversion of its fields."""

    value: Any


def plain(value: Any) -> Any:
    """Convert records to JSON types. A moment becomes ISO 8601 text in UTC, a holder's number becomes 16 hex digits."""
    if isinstance(value, Verbatim):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _field(name, item) for name, item in asdict(value).items()}
    if isinstance(value, dict):
        return {name: _field(name, item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _iso(value) if isinstance(value, datetime) else value


def print_table(title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as a table; if stdout is no terminal, print one full line for each row."""
    if is_terminal():
        out.print(table_of(title, columns, rows))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _plain_lines(title, columns, rows)))


def table_of(title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> Table:
    """Build a table from rows; None becomes an empty cell."""
    table = Table(*columns, title=title or None, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(printable(cell(value))) for value in row))
    return table


def print_records(records: Sequence[LogRecord], *, title: str = "\nrecords") -> None:
    """Print records as a table; print nothing for an empty list."""
    rows = [(r.recorded_at, r.intent, r.timer_key, r.due_date, r.occurrence, json_text(r.detail)) for r in records]
    if rows:
        print_table(title, ["recorded", "intent", "timer_key", "due", "occurrence", "detail"], rows)


def json_text(value: object) -> str | None:
    """Format a value as JSON for a cell; None becomes an empty cell."""
    return None if value is None else json.dumps(value, ensure_ascii=False)


def hex_of(holder: int | None) -> str | None:
    """Format the random 63-bit number of a holder or leader as 16 hex digits."""
    return None if holder is None else f"{holder:016x}"


def on_clock(moment: datetime | None, clock: ZoneInfo | None) -> datetime | None:
    """Convert a moment to a zone for output.

    Return the moment unchanged if no zone is given, or if the conversion overflows.
    """
    try:
        return moment.astimezone(clock) if moment and clock else moment
    except OverflowError:
        return moment


def _field(name: str, value: Any) -> Any:
    if name in ("holder", "leader"):
        return hex_of(value)
    if name in JSON_TEXTS and isinstance(value, str):
        return stored_json(value)
    return plain(value)


def _plain_lines(title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    heads = [column if isinstance(column, str) else str(column.header) for column in columns]
    lines = [heads, *([printable(cell(value), kept="") for value in row] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    if title:
        yield title
    for line in lines:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()


def cell(value: object) -> str:
    """Format a value for a table: a moment in UTC with milliseconds, None as an empty text."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


def _iso(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")

"""Write the reference of the SQL functions, with signatures and comments from Postgres's catalog.

The functions are ordered by subject, the folders in sql/functions. A function's comment has a description, a line for
each argument, the result, the errors, and an example. A line `as: other` means that the missing lines are in the
comment of the function `other`. A function without a comment, or with a comment that begins with "Internal", is not for
users.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

import asyncpg

from tests.support import ROOT
from tests.support.postgres import Server

PAGE = ROOT / "docs" / "sql.md"
RELATIONS = ("timer_history", "timers", "command_log")
SUBJECT_OF = {path.stem: path.parent.name for path in (ROOT / "sql" / "functions").glob("*/*.sql")}
# The subjects of functions for users, in the order of the page.
SUBJECTS = ("timers", "jobs", "processes", "deliveries", "log")
HEAD = """\
# SQL reference

<!-- Written by `make docs`. To change this page, edit the comments of the functions in sql/functions. -->

All of it is in the schema `shardclock`. Each call is part of your transaction: a rollback undoes it. Name the
arguments, as the examples do; an omitted one has its default. A refusal is one sentence, and the constraint in the
error is its [code](refusals.md). [schedule.md](schedule.md) shows their use, [when.md](when.md) the forms of schedules.
"""
FUNCTIONS = """
    select
        p.proname as name, pg_get_function_result(p.oid) as result,
        obj_description(p.oid, 'pg_proc') as comment,
        array(
            select a.name || ' ' || format_type(a.type, null)
            from unnest(p.proargnames, coalesce(p.proallargtypes, p.proargtypes::oid[]))
                with ordinality as a (name, type, number)
            where coalesce(p.proargmodes[a.number], 'i') in ('i', 'b')
            order by a.number
        ) as arguments,
        array(
            select coalesce(pg_get_function_arg_default(p.oid, n), '')
            from generate_series(1, p.pronargs) n
            order by n
        ) as defaults
    from pg_proc p
    where p.pronamespace = 'shardclock'::regnamespace
    order by p.proname
"""
COLUMNS = """
    select
        c.relname as relation, obj_description(c.oid, 'pg_class') as comment,
        a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
        coalesce(col_description(c.oid, a.attnum), '') as meaning
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'shardclock'::regnamespace and c.relname = any ($1)
    order by array_position($1, c.relname::text), a.attnum
"""
LINE = re.compile(r"^(\w+): (.*)$")


class Incomplete(Exception):
    """The comment of a function lacks a line; the message names the function and the line."""


@dataclass(frozen=True)
class Argument:
    """An argument, with its type and default in Postgres's notation."""

    name: str
    type: str
    default: str


@dataclass(frozen=True)
class Function:
    """A function for users."""

    name: str
    arguments: Sequence[Argument]
    result: str
    text: str
    lines: Mapping[str, str]

    @classmethod
    def of(cls, row: asyncpg.Record) -> Function:
        """Read a function and the lines of its comment from the catalog."""
        text, *rest = row["comment"].strip().split("\n\n", 1)
        said = [found for line in "".join(rest).splitlines() if (found := LINE.match(line))]
        lines = {found[1]: found[2] for found in said}
        arguments = []
        for argument, default in zip(row["arguments"], row["defaults"], strict=True):
            name, _, type_ = argument.partition(" ")
            arguments.append(Argument(name, type_, default))
        return cls(row["name"], arguments, row["result"], " ".join(text.split()), lines)


def is_public(comment: str | None) -> bool:
    """Return whether users may call a function with this comment."""
    return comment is not None and not comment.startswith("Internal")


def page_of(functions: Sequence[Function], columns: Sequence[asyncpg.Record]) -> str:
    """Write the page.

    errors:  Incomplete  a comment lacks an argument, the result, the errors, or an example
    """
    said = {function.name: function for function in functions}
    indexes = [_index(subject, list(of)) for subject, of in groupby(functions, lambda it: SUBJECT_OF[it.name])]
    return "\n".join([HEAD, *indexes, *(_part(it, said) for it in functions), *_relations(columns)])


def _index(subject: str, functions: Sequence[Function]) -> str:
    rows = "".join(f"| [`{it.name}`](#{it.name}) | {it.text} |\n" for it in functions)
    return f"| {subject} | |\n|---|---|\n{rows}"


def _part(function: Function, said: Mapping[str, Function]) -> str:
    known = {"returns", "errors", "example", "as", *(argument.name for argument in function.arguments)}
    if odd := function.lines.keys() - known:
        raise Incomplete(
            f"the comment of {function.name} describes {', '.join(sorted(odd))}, but the function has no argument of"
            " this name"
        )
    rows = [
        f"| `{it.name}` | {it.type} | {f'`{_default(it.default)}`' if it.default else 'to be given'} |"
        f" {_line(function, it.name, said)} |"
        for it in function.arguments
    ]
    return "\n".join(
        [
            f"## {function.name}\n",
            f"{function.text}\n",
            *(["| argument | type | default | |", "|---|---|---|---|", *rows, ""] if rows else []),
            f"**Returns** `{function.result}`: {_line(function, 'returns', said)}\n",
            f"**Errors**: {_line(function, 'errors', said)}\n",
            "```sql",
            function.lines.get("example") or _line(function, "example", {}),
            "```\n",
        ]
    )


def _line(function: Function, about: str, said: Mapping[str, Function]) -> str:
    """Find the line of an argument or of another part, in this comment or in the comment that `as:` names."""
    if about in function.lines:
        return function.lines[about].replace("|", "\\|")
    other = said.get(function.lines.get("as", ""))
    if other is None:
        raise Incomplete(f'the comment of {function.name} does not describe "{about}": add a line "{about}: ..."')
    return _line(other, about, said)


def _default(text: str) -> str:
    return re.sub(r"::[a-z ]+$", "", text).replace("NULL", "null")


def _relations(columns: Sequence[asyncpg.Record]) -> list[str]:
    parts = []
    # A column without a comment has the same meaning as the column of this name in `timers`.
    known = {row["name"]: row["meaning"] for row in columns if row["relation"] == "timers"}
    for relation in RELATIONS:
        rows = [row for row in columns if row["relation"] == relation]
        table = ["| column | type | |", "|---|---|---|"]
        table += [
            f"| `{row['name']}` | {row['type']} | {row['meaning'] or known.get(row['name'], '')} |" for row in rows
        ]
        parts.append("\n".join([f"## {relation}\n", f"{rows[0]['comment']}\n", *table, ""]))
    return parts


async def read_page(dsn: str) -> str:
    """Return the page, from a migrated database."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(FUNCTIONS)
        functions = [Function.of(row) for row in rows if is_public(row["comment"])]
        functions.sort(key=lambda it: SUBJECTS.index(SUBJECT_OF[it.name]))
        return page_of(functions, await connection.fetch(COLUMNS, list(RELATIONS)))
    finally:
        await connection.close()


def main() -> None:
    """Write docs/sql.md."""
    with closing(Server(18)) as server:
        dsn = server.clone()
        try:
            PAGE.write_text(asyncio.run(read_page(dsn)), encoding="utf-8")
        finally:
            server.drop(dsn)
    sys.stdout.write(f"{PAGE} is written\n")


if __name__ == "__main__":
    main()

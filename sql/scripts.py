"""The scripts that create the schema: steps for the tables, a file for each function, and roles.sql."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

BOOKKEEPING = """\
create table if not exists shardclock.migrations (
    version integer not null primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);
create table if not exists shardclock.functions (
    name text not null primary key,
    checksum text not null,
    release text not null,
    applied_at timestamptz not null default now()
);
"""

_RECORD_STEP = """\
insert into shardclock.migrations (version, name, checksum) values ('{number}', '{name}', '{checksum}');
"""
_RECORD_FUNCTION = """\
insert into shardclock.functions (name, checksum, release) values ('{name}', '{checksum}', '{release}')
on conflict (name) do update
set checksum = excluded.checksum, release = excluded.release, applied_at = excluded.applied_at;
"""
_OBJECT = re.compile(r"^create (table|view|sequence|type) shardclock\.(\w+)|^create (trigger) (\w+)", re.MULTILINE)
_NEEDS = re.compile(r"^-- needs: +(.*(?:\n--  +.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class SqlScript:
    """One script: a numbered step of the schema, or a function."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Return a digest of the text, which shows whether the text has changed."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def version(self) -> int:
        """Return the number of a step."""
        return int(self.name[:4])

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Return the kind and the name of each table, view, sequence, type and trigger that a step creates."""
        return [(found[1] or found[3], found[2] or found[4]) for found in _OBJECT.finditer(self.text)]

    @property
    def needs(self) -> list[str]:
        """Return the SQL functions that must exist before this script runs, from the script's header."""
        found = _NEEDS.search(self.text.partition("\ncreate ")[0])
        return re.findall(r"\w+", found[1]) if found else []


@cache
def steps() -> tuple[SqlScript, ...]:
    """Read the schema's steps, in order."""
    return tuple(sorted(_scripts(files("shardclock_server.sql").joinpath("schema")), key=lambda step: step.name))


@cache
def functions() -> Mapping[str, SqlScript]:
    """Read all functions by name; each function comes after the functions that it needs."""
    found: dict[str, SqlScript] = {}
    for folder in files("shardclock_server.sql").joinpath("functions").iterdir():
        if folder.is_dir():
            found |= {script.name: script for script in _scripts(folder)}
    return {script.name: script for script in _with_needs(sorted(found), found)}


@cache
def removed() -> SqlScript:
    """Read the script that drops functions of earlier releases."""
    path = files("shardclock_server.sql").joinpath("functions", "removed.sql")
    return SqlScript("removed", path.read_text(encoding="utf-8"))


@cache
def release() -> str:
    """Return this program's release."""
    return version("shardclock")


@cache
def roles_text() -> str:
    """Read the script that creates the roles and grants their rights."""
    return files("shardclock_server.sql").joinpath("roles.sql").read_text(encoding="utf-8")


def in_order(missing: Iterable[SqlScript], changed: Mapping[str, SqlScript]) -> list[SqlScript]:
    """Sort steps and functions: the functions that a step needs come before the step; all other functions come last.

    shape:   each script once
    """
    ordered: dict[str, SqlScript] = {}
    for step in missing:
        ordered |= {script.name: script for script in _with_needs(step.needs, changed)}
        ordered[step.name] = step
    ordered |= {script.name: script for script in _with_needs(changed, changed)}
    return list(ordered.values())


def record_of(script: SqlScript) -> str:
    """Return the statement that records a script; names, checksums and releases contain no quotes."""
    record = _RECORD_STEP if re.match(r"\d{4}_", script.name) else _RECORD_FUNCTION
    return record.format(name=script.name, checksum=script.checksum, number=script.name[:4], release=release())


def _with_needs(names: Iterable[str], among: Mapping[str, SqlScript]) -> Iterator[SqlScript]:
    """Yield the named functions, each after the functions that it needs; a function may be yielded twice."""
    for name in names:
        if name in among:
            yield from _with_needs(among[name].needs, among)
            yield among[name]


def _scripts(folder: Traversable) -> Iterator[SqlScript]:
    for path in folder.iterdir():
        if path.name.endswith(".sql"):
            yield SqlScript(path.name.removesuffix(".sql"), path.read_text(encoding="utf-8"))

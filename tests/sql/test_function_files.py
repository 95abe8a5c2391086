"""Prove that the header of each function's file agrees with Postgres, and names the functions that it needs."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from shardclock_server.sql.scripts import functions, in_order, steps
from tests.support import ROOT
from tests.support.factories import query
from tests.support.statement_headers import Header

FILES = {path.stem: path for path in sorted((ROOT / "sql" / "functions").glob("*/*.sql"))}
SECTIONS = ["in", "out", "locks", "index"]
SIGNATURES = """
    select p.proname as name, l.lanname = 'sql' and p.prosrc <> '' as is_text, p.prosrc as text,
        obj_description(p.oid, 'pg_proc') as comment, pg_get_function_identity_arguments(p.oid) as arguments,
        pg_get_function_result(p.oid) as result
    from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace = 'shardclock'::regnamespace
"""
SHORT = {"timestamp with time zone": "timestamptz", "timestamp without time zone": "timestamp"}
# A function is needed by another function's body, or by a trigger, constraint or default of a table.
NEEDS = """
    select coalesce(u.proname, t.relname) as name, f.proname as needed
    from pg_depend d
    join pg_proc f on f.oid = d.refobjid and d.refclassid = 'pg_proc'::regclass
    left join pg_proc u on u.oid = d.objid and d.classid = 'pg_proc'::regclass
    left join pg_trigger g on g.oid = d.objid and d.classid = 'pg_trigger'::regclass
    left join pg_constraint k on k.oid = d.objid and d.classid = 'pg_constraint'::regclass
    left join pg_attrdef a on a.oid = d.objid and d.classid = 'pg_attrdef'::regclass
    left join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
    left join pg_class t on t.oid = coalesce(g.tgrelid, k.conrelid, a.adrelid, r.ev_class)
    where f.pronamespace = 'shardclock'::regnamespace and not coalesce(t.relispartition, false)
"""


def test_each_file_has_only_the_function_with_the_files_name() -> None:
    made = {
        name: re.findall(r"^create or replace function shardclock\.(\w+)\(", path.read_text(), re.MULTILINE)
        for name, path in FILES.items()
    }

    assert made == {name: [name] for name in functions()}


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_a_function_opens_with_its_input_output_locks_indexes_and_needs(path: Path) -> None:
    header = Header.in_file(path)

    assert list(header.sections)[:4] == SECTIONS
    assert set(header.sections) <= {*SECTIONS, "needs"}
    assert all(header.sections.values())


def _signature(arguments: str, result: str) -> tuple[str, str]:
    """Return a function's input and output in the form of a header."""
    for long, short in SHORT.items():
        arguments, result = arguments.replace(long, short), result.replace(long, short)
    parts = arguments.split(", ") if arguments else []
    columns = [part.removeprefix("OUT ") for part in parts if part.startswith("OUT ")]
    given = [part for part in parts if not part.startswith("OUT ")]
    if columns:
        result = ", ".join(columns)
    result = re.sub(r"^TABLE\((.*)\)$", r"\1", result).replace("SETOF ", "setof ")
    return ", ".join(given) or "nothing", "nothing" if result == "void" else result


async def test_postgres_agrees_with_every_header(each_dsn: str) -> None:
    said, found = {}, {}
    for row in await query(each_dsn, SIGNATURES):
        header = Header.in_file(FILES[row["name"]])
        given, result = _signature(row["arguments"], row["result"])
        found[row["name"]] = (given, result, True)
        out = header.sections["out"]
        is_result = out == result or out.startswith((f"{result}: ", f"{result}; "))
        has_sentence = bool(header.sentence or row["comment"])
        said[row["name"]] = (header.sections["in"], result if is_result else out, has_sentence)

    assert said == found
    assert said.keys() == FILES.keys()


async def test_the_needs_of_functions_and_steps_are_the_dependencies_in_postgres(each_dsn: str) -> None:
    step_of = {
        name: step.name
        for step in steps()
        for name in re.findall(r"^create (?:table|view) \w+\.(\w+)", step.text, re.MULTILINE)
    }
    known = defaultdict[str, set[str]](set)
    for row in await query(each_dsn, NEEDS):
        known[step_of.get(row["name"], row["name"])].add(row["needed"])
    # A text body is parsed when the function is made, and leaves no dependency; the same applies to a call in a step.
    texts = {row["name"]: row["text"] for row in await query(each_dsn, SIGNATURES) if row["is_text"]}
    texts |= {step.name: "".join(re.findall(r"^select .*", step.text, re.MULTILINE)) for step in steps()}
    for name, text in texts.items():
        known[name] |= set(re.findall(r"shardclock\.(\w+)\s*\(", text)) - {name}

    said = {script.name: set(script.needs) for script in (*steps(), *functions().values())}

    assert said == {name: known[name] for name in said}


def test_functions_come_after_their_needs_and_the_functions_of_tables_before_the_tables() -> None:
    ordered = in_order(steps(), functions())
    places = {script.name: place for place, script in enumerate(ordered)}

    assert len(places) == len(ordered) == len(steps()) + len(functions())
    assert [it.name for it in ordered for need in it.needs if places[need] > places[it.name]] == []
    assert places["check_timer"] < places["0001_timers"] < places["broken_rule"]

"""Prove that sql/schema.sql is the schema that the migrations make."""

from __future__ import annotations

from tools.schema import PAGE, page_of, read_schema


def test_the_page_is_what_the_migrations_make(dsn: str) -> None:
    assert PAGE.read_text(encoding="utf-8") == read_schema(dsn), "write it anew: make docs"


def test_the_page_has_each_table_whole_and_each_function_by_its_signature() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert "CREATE TABLE shardclock.timers (" in page
    assert "CREATE INDEX timers_by_slot ON shardclock.timers" in page
    assert "-- is_free(bigint, timestamp with time zone, timestamp with time zone, interval, bigint[])" in page
    assert "$$" not in page


def test_what_is_no_part_of_the_schema_is_left_out() -> None:
    function = "-- Name: is_free(bigint); Type: FUNCTION; Schema: s; Owner: -"
    dump = f"SET x = 1;\n--\n{function}\n--\n\nCREATE FUNCTION f() AS $$ $$;\n"

    assert page_of(dump).endswith("-- is_free(bigint)  0001_timers.sql\n")
    assert "CREATE FUNCTION" not in page_of(dump)

"""Prove that the reference describes each SQL function with its present signature, and omits no function."""

from __future__ import annotations

import pytest

from tests.support.factories import query
from tools.sql_reference import PAGE, Argument, Function, Incomplete, is_public, page_of, read_page

WHOLE = {"reason": "kept", "returns": "the keys", "errors": "none", "example": "select 1;"}


async def test_the_page_contains_the_comments_and_signatures(dsn: str) -> None:
    assert PAGE.read_text(encoding="utf-8") == await read_page(dsn), "write it anew: make docs"


async def test_each_function_s_example_calls_it_with_named_arguments(dsn: str) -> None:
    rows = await query(
        dsn,
        "select proname as name, obj_description(oid, 'pg_proc') as comment from pg_proc"
        " where pronamespace = 'shardclock'::regnamespace",
    )
    public = {row["name"]: row["comment"] for row in rows if is_public(row["comment"])}

    assert {"schedule_timer", "cancel_timer", "shift_timers", "find_timers"} <= public.keys()
    for name, comment in public.items():
        assert f"shardclock.{name}(" in comment.partition("example:")[2], name
    # The reference has each function that the docs name.
    texts = "".join(path.read_text() for path in PAGE.parent.glob("*.md") if path != PAGE)
    told = {row["name"] for row in rows if f"shardclock.{row['name']}(" in texts}
    assert told <= public.keys()


@pytest.mark.parametrize("missing", WHOLE)
def test_a_comment_without_a_required_line_is_refused(missing: str) -> None:
    lines = {about: line for about, line in WHOLE.items() if about != missing}

    with pytest.raises(Incomplete, match=f'cancel_timer does not describe "{missing}"'):
        page_of([function(lines)], [])


def test_a_comment_about_an_unknown_argument_is_refused() -> None:
    with pytest.raises(Incomplete, match="describes colour, but the function has no argument of this name"):
        page_of([function(WHOLE | {"colour": "red"})], [])


def function(lines: dict[str, str]) -> Function:
    return Function("cancel_timer", [Argument("reason", "text", "NULL::text")], "SETOF bigint", "Cancels.", lines)

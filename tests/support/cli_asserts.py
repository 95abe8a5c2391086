"""Shared parts of the command line's tests: exit codes, assertions, and a shard's effects."""

from __future__ import annotations

import json

from shardclock.api.codes import RefusalCode
from tests.support.program import Done, Shell

DONE, NOT_DONE, BAD_INPUT, NOT_THERE, WRONG_SCHEMA, ANSWER_LOST = range(6)
BIG = 9_223_372_036_854_775_807
SECRET = "hunter2"
DOWN = f"postgresql://user:{SECRET}@127.0.0.1:1/shardclock"


def count(shell: Shell) -> int:
    return int(shell.sql("select count(*) from shardclock.timers")[0][0])


def end_all(shell: Shell, intent: str = "TRIGGERED") -> None:
    """End all due timers as a shard would end them, by default by a firing."""
    shell.sql(
        "with gone as (delete from shardclock.timers where due_date <= now() returning *)"
        " insert into shardclock.command_log (intent, timer_key, tenant_id, name, timer_type, due_date,"
        " created_at, schedule, occurrence, target, payload, detail)"
        " select $1, timer_key, tenant_id, name, timer_type, due_date, created_at, schedule, occurrence, target,"
        " payload, case when $1 = 'SKIPPED' then jsonb_build_object('policy', 'skip', 'count', 1) end from gone",
        intent,
    )


def recorded_outcomes(shell: Shell) -> list[str]:
    """Read the outcomes of the commands in the audit."""
    return [row["outcome"] for row in shell.sql("select outcome from shardclock.audit order by act_id")]


def assert_refused(done: Done, *words: str, code: int = BAD_INPUT) -> None:
    """Assert that stdout is empty, and that stderr is one line (an object with --json) with these words."""
    assert (done.code, done.out) == (code, ""), done
    assert len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith(("shardclock: ", "{"))
    for word in words:
        assert word in (json.loads(done.err)["detail"] if done.err.startswith("{") else done.err)


def assert_code(done: Done, code: RefusalCode, **members: object) -> None:
    assert (done.code, done.out) == (code.exit_code, ""), done
    refusal = json.loads(done.err)
    assert refusal.pop("detail")
    assert refusal == {"code": code.name, **members}

"""Test that a user's test calls a handler in one line, with a timer made for it."""

from __future__ import annotations

import asyncio
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock import Completed, Failed, Handler, InvalidHandler, Run, Timer, job, on_timer
from shardclock.jobs import declared_jobs
from shardclock.testing import acall, acall_batch, call, call_batch, run_of, timer
from tests.support import ROOT

Declare = Callable[..., Handler]


class Order(BaseModel):
    order: int


def helper(order: int) -> None: ...


@on_timer("tests.plain")
def plain(timer: Timer) -> Any:
    return timer.payload


@on_timer("tests.async")
async def asynchronous(timer: Timer) -> Any:
    return timer.payload


def test_a_test_timer_has_fired_just_now_as_its_first_occurrence() -> None:
    before = datetime.now(UTC)

    made_up = timer({"order": 7}, name="a")

    assert before <= made_up.due_date == made_up.fired_at <= datetime.now(UTC)
    assert (made_up.timer_key, made_up.occurrence, made_up.attempt, made_up.tenant_id) == (1, 1, 1, "default")
    assert (made_up.target, made_up.timer_type, made_up.name) == ("log", "USER", "a")
    assert made_up.payload == {"order": 7}
    assert timer(due_date=before).fired_at == before


def test_an_unknown_field_of_a_timer_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'key'"):
        call(plain, key=7)


def test_a_timer_can_be_read_and_pickled_and_not_changed() -> None:
    made_up = timer([1, 2])

    assert pickle.loads(pickle.dumps(made_up)) == made_up
    with pytest.raises(AttributeError):
        made_up.attempt = 2  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        made_up.other = 2  # type: ignore[attr-defined]


def test_a_function_is_called_with_facts_and_its_own_target(declare: Declare) -> None:
    seen: list[Timer] = []

    def expire(timer: Timer) -> None:
        seen.append(timer)

    assert call(declare(expire), attempt=3, timer_key=7) == Completed()
    assert [(one.attempt, one.timer_key, one.target) for one in seen] == [(3, 7, "expire")]


@pytest.mark.parametrize("function", [plain, asynchronous])
def test_a_tests_payload_is_converted_through_json(function: Callable[..., Any]) -> None:
    assert call(function, (1, {2: None})) == Completed([1, {"2": None}])
    assert call(function, Order(order=7)) == Completed({"order": 7})
    assert call(function, datetime(2026, 1, 31, tzinfo=UTC)) == Completed("2026-01-31T00:00:00Z")
    with pytest.raises(ValueError, match="not JSON compliant"):
        call(function, float("nan"))


async def test_within_an_event_loop_a_test_awaits_the_call() -> None:
    assert await acall(asynchronous, 7) == Completed(7)
    assert await acall_batch(plain, [7, 8]) == [Completed(7), Completed(8)]
    assert call(plain, 7) == Completed(7)
    with pytest.raises(RuntimeError, match=r"^call can't wait in a running event loop; write: await acall\(\.\.\.\)"):
        call(asynchronous, 7)


def test_the_traceback_of_an_async_handler_begins_with_its_own_error(declare: Declare) -> None:
    async def fails(timer: Timer) -> None:
        raise ValueError("no such order")

    outcome = call(declare(fails))

    assert isinstance(outcome, Failed)
    assert "no running event loop" not in outcome.traceback


def test_a_plain_handler_runs_outside_an_event_loop_and_may_start_a_loop(declare: Declare) -> None:
    def sends(timer: Timer) -> int:
        async def send() -> int:
            return 7

        return asyncio.run(send())

    assert call(declare(sends)) == Completed(7)


def test_timers_of_a_batch_have_keys_that_count_up(declare: Declare) -> None:
    keys: list[int] = []

    def aggregate(timers: list[Timer]) -> None:
        keys.extend(timer.timer_key for timer in timers)

    call_batch(declare(aggregate, batch=9), [None] * 3)
    call_batch(declare(aggregate, batch=9), [None] * 2, timer_key=7)

    assert keys == [1, 2, 3, 7, 8]


def test_a_handler_that_is_run_as_a_job_and_the_reverse_are_refused_with_the_right_helper(declare: Declare) -> None:
    def expire(timer: Timer) -> None: ...

    def refresh(run: Run) -> None: ...

    handler = declare(expire)
    refresh.__qualname__ = "refresh"
    job()(refresh)
    (declared,) = [it for it in declared_jobs() if it.function is refresh]

    for it in (expire, handler):
        with pytest.raises(InvalidHandler, match=r" is a handler, not a job; call it with shardclock\.testing\.call$"):
            run_of(it)  # type: ignore[arg-type]
    for other in (refresh, declared):
        with pytest.raises(InvalidHandler, match=r" is a job, not a handler; run it with shardclock\.testing\.run_of$"):
            call(other)  # type: ignore[arg-type]


def test_a_function_that_is_not_a_handler_is_refused() -> None:
    with pytest.raises(
        InvalidHandler, match=r"^tests\.client\.test_testing:helper is no handler; decorate it with @sh"
    ):
        call(helper)


def test_the_readmes_handlers_pass_the_readmes_tests(app: Callable[[str, str], None]) -> None:
    handlers, tests, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "client" / "README.md").read_text(), re.DOTALL)
    app("reminders.py", handlers)

    names: dict[str, Any] = {}
    exec(tests, names)
    proofs = [proof for name, proof in names.items() if name.startswith("test_")]
    for proof in proofs:
        proof()

    assert len(proofs) == 4


def test_the_client_imports_only_pydantic(tmp_path: Path) -> None:
    asked = """if True:
        import sys
        from pydantic import BaseModel, TypeAdapter
        before = set(sys.modules)
        import shardclock.testing
        new = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
        print(*[name for name in new if not name.startswith("_")])
    """
    found = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        env={"PYTHONPATH": str(ROOT / "client")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["shardclock"]

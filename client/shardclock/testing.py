"""Call handlers and run jobs in unit tests as a worker does, or run a test cluster and move its clock.

    assert call(remind, {"order": 7}) == Completed()
    assert run_of(refresh, {"city": "Rome"}) == Completed(3)

    async with cluster(app="reminders") as sc:  # needs the server's distribution, too
        await sc.advance("P3D")

A payload is converted to JSON and back, as in production. A plain handler has no timeout in tests; in production the
worker ends the handler's process after the timeout.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_jsonable_python

from shardclock.calling import Delivered, call_async, call_batch_async, call_batch_plain, call_plain
from shardclock.handler import Handler, declared
from shardclock.job_calling import CallOutcome, JobCall, RunOrder
from shardclock.jobs import Job, declared_jobs
from shardclock.outcome import Outcome
from shardclock.refusal import InvalidHandler, shown
from shardclock.signature import FunctionOfTimer
from shardclock.stepping import SteppedCluster, cluster
from shardclock.timer import Timer

__all__ = ["SteppedCluster", "acall", "acall_batch", "call", "call_batch", "cluster", "run_of", "timer"]


def timer(payload: Any = None, **facts: Any) -> Timer[Any]:
    """Create a timer that has just fired, for its first attempt; `facts` are the fields that matter to the test.

    errors:  TypeError  `facts` has a name that is not a field of a timer
    """
    due_date = facts.get("due_date", datetime.now(UTC))
    made_up: dict[str, Any] = {
        "timer_key": 1,
        "due_date": due_date,
        "fired_at": due_date,
        "occurrence": 1,
        "attempt": 1,
        "tenant_id": "default",
        "target": "log",
        "timer_type": "USER",
        "name": None,
        "schedule": None,
        "target_element_id": None,
        "process_instance_key": None,
        "element_instance_key": None,
    }
    return Timer(**made_up | facts, payload=payload)


def call(handler: Handler | FunctionOfTimer, payload: Any = None, **facts: Any) -> Outcome:
    """Call a handler, async or plain, with a timer of this payload; a batch handler gets a batch of one timer.

    errors:  InvalidHandler         the function has no @on_timer.
             RuntimeError           an event loop is running: await `acall` instead.
             TypeError, ValueError  the payload has no form in JSON.
    """
    return call_batch(handler, [payload], **facts)[0]


async def acall(handler: Handler | FunctionOfTimer, payload: Any = None, **facts: Any) -> Outcome:
    """Call a handler as `call` does, in a running event loop."""
    return (await acall_batch(handler, [payload], **facts))[0]


def call_batch(handler: Handler | FunctionOfTimer, payloads: Sequence[Any], **facts: Any) -> list[Outcome]:
    """Call a handler of batches with one timer for each payload; the keys count up from `timer_key`, or from 1.

    shape:   an outcome for each timer, in order
    errors:  as in `call`
    """
    found = _handler_of(handler)
    if not found.is_async:
        return _call_plain(found, _timers(found, payloads, facts))
    if _a_loop_runs():
        raise RuntimeError(
            "call can't wait in a running event loop; write: await acall(...), or await acall_batch(...)"
        )
    return asyncio.run(acall_batch(found, payloads, **facts))


async def acall_batch(handler: Handler | FunctionOfTimer, payloads: Sequence[Any], **facts: Any) -> list[Outcome]:
    """Call a handler of batches as `call_batch` does, in a running event loop."""
    found = _handler_of(handler)
    timers = _timers(found, payloads, facts)
    if not found.is_async:
        return _call_plain(found, timers)
    return await call_batch_async(found, timers) if found.takes_batch else [await call_async(found, t) for t in timers]


def run_of(job: Job | Callable[[Any], Any], config: Any = None, *, attempt: int = 1) -> CallOutcome:
    """Run a job, async or plain, in a thread as in production; without `config` the run has the declared configuration.

    errors:  InvalidHandler         the function has no @job.
             TypeError, ValueError  the config has no form in JSON.
    """
    found = job if isinstance(job, Job) else next((it for it in declared_jobs() if it.function is job), None)
    if found is None and any(job in (it, it.function) for it in declared()):
        raise InvalidHandler(f"{shown(job)} is a handler, not a job; call it with shardclock.testing.call")
    if found is None:
        raise InvalidHandler(f"{shown(job)} is no job; decorate it with @shardclock.job")
    text = found.config if config is None else _delivered(config)
    limit_s = found.policy.max_runtime_s
    order = RunOrder(found.name, found.reference, f"1.{attempt}", attempt, datetime.now(UTC), text, limit_s)
    with ThreadPoolExecutor(1) as thread:  # an event loop may run in the present thread
        return thread.submit(JobCall(found, order).run).result()


def _a_loop_runs() -> bool:
    # Call outside the `except` block. Inside, the traceback of the job's error would begin with an error of this
    # module.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _call_plain(handler: Handler, timers: Sequence[Delivered]) -> list[Outcome]:
    return call_batch_plain(handler, timers) if handler.takes_batch else [call_plain(handler, t) for t in timers]


def _timers(handler: Handler, payloads: Sequence[Any], facts: Mapping[str, Any]) -> list[Delivered]:
    first_key = facts.get("timer_key", 1)
    return [
        timer(_delivered(payload), **{"target": handler.target, **facts, "timer_key": key})
        for key, payload in enumerate(payloads, first_key)
    ]


def _delivered(payload: Any) -> str | None:
    return None if payload is None else json.dumps(payload, default=to_jsonable_python, allow_nan=False)


def _handler_of(function: Handler | FunctionOfTimer) -> Handler:
    if isinstance(function, Handler):
        return function
    for handler in declared():
        if handler.function is function:
            return handler
    if any(function in (it, it.function) for it in declared_jobs()):
        raise InvalidHandler(f"{shown(function)} is a job, not a handler; run it with shardclock.testing.run_of")
    raise InvalidHandler(f"{shown(function)} is no handler; decorate it with @shardclock.on_timer")

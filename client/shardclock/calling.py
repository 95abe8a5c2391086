"""Call handlers, and return how each attempt ended; workers and tests use the same functions.

A timer's payload is JSON text as it was delivered, or None; the handler gets the parsed value. An exception of a
handler never leaves this module, except a cancellation by the caller. If a handler never awaits, or catches its
cancellation, its call ends only with the process.
"""

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, TypeAlias

from shardclock.deadline import Deadline
from shardclock.ending import EndingIn
from shardclock.handler import Handler
from shardclock.outcome import COMPLETED, Completed, Failed, Outcome, outcome_of
from shardclock.payload import read_payload
from shardclock.raised import Partly
from shardclock.result import completed, with_variables
from shardclock.timer import Timer

Delivered: TypeAlias = Timer[str | None]
SERVICE_TASK = "SERVICE_TASK"  # The type of the timers that call a process's service tasks.
# The handler's result, and its exception or None; after an exception, the result is None.
Ended: TypeAlias = tuple[object, BaseException | None]


async def call_async(handler: Handler, timer: Delivered, deadline: Deadline | None = None) -> Outcome:
    """Call an async handler with one timer, within its timeout.

    A task that makes many calls may pass one `deadline` for all calls, with the handler's timeout.

    errors:  CancelledError  the caller was cancelled
    """
    read = read_payload(handler.payload, timer)
    if not isinstance(read, Timer):
        return read
    result, error = await _run_async(handler, read, deadline or Deadline(handler.policy.timeout_s))
    return _returned(read, result) if error is None else outcome_of(error)


def call_plain(handler: Handler, timer: Delivered) -> Outcome:
    """Call a plain (not async) handler with one timer; only the end of the process can end the call early."""
    read = read_payload(handler.payload, timer)
    if not isinstance(read, Timer):
        return read
    result, error = _run_plain(handler, read)
    return _returned(read, result) if error is None else outcome_of(error)


async def call_batch_async(handler: Handler, timers: Sequence[Delivered]) -> list[Outcome]:
    """Call an async handler with a batch of timers, within its timeout.

    shape:   an outcome for each timer, in order; the handler does not get timers with an unreadable payload
    errors:  CancelledError  the caller was cancelled
    """
    read = [read_payload(handler.payload, timer) for timer in timers]
    fit = [timer for timer in read if isinstance(timer, Timer)]
    if not fit:
        return _of_batch(read, (None, None))
    return _of_batch(read, await _run_async(handler, fit, Deadline(handler.policy.timeout_s)))


def call_batch_plain(handler: Handler, timers: Sequence[Delivered]) -> list[Outcome]:
    """Call a plain (not async) handler with a batch of timers; only the end of the process can end the call early.

    shape:   an outcome for each timer, in order; the handler does not get timers with an unreadable payload
    """
    read = [read_payload(handler.payload, timer) for timer in timers]
    fit = [timer for timer in read if isinstance(timer, Timer)]
    return _of_batch(read, _run_plain(handler, fit) if fit else (None, None))


async def _run_async(handler: Handler, argument: object, deadline: Deadline) -> Ended:
    try:
        with deadline, EndingIn(handler.policy.timeout_s):
            return await handler.function(argument), None
    except BaseException as error:
        if _is_the_callers(error):
            raise
        return None, error


def _run_plain(handler: Handler, argument: object) -> Ended:
    try:
        with EndingIn(handler.policy.timeout_s):
            result = handler.function(argument)
    except BaseException as error:  # noqa: BLE001 - SystemExit, too, is a failed attempt of the handler
        return None, error
    if inspect.iscoroutine(result):
        result.close()
        return None, TypeError("the function returned a coroutine that is not awaited; declare it with async def")
    return result, None


def _is_the_callers(error: BaseException) -> bool:
    """Return whether the caller was cancelled; False: only a task that the handler awaits was cancelled."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _of_batch(read: Sequence[Timer[Any] | Outcome], ended: Ended) -> list[Outcome]:
    result, error = ended
    by_key: dict[int, object] = {}
    if isinstance(error, Partly):
        by_key = error.by_timer_key
        strangers = by_key.keys() - {timer.timer_key for timer in read if isinstance(timer, Timer)}
        error = None if not strangers else ValueError(f"Partly names {min(strangers)}, which is no timer of this batch")
    if error is not None:
        failed = outcome_of(error)
        return [failed if isinstance(timer, Timer) else timer for timer in read]
    if not by_key:
        return [_of_whole_batch(timer, result) if isinstance(timer, Timer) else timer for timer in read]
    return [_of_one(timer, by_key.get(timer.timer_key)) if isinstance(timer, Timer) else timer for timer in read]


def _of_whole_batch(timer: Timer[Any], result: object) -> Outcome:
    # Handlers of other queue services return a list of failed timers. Shardclock ignores a returned list, so the note
    # explains the alternative.
    if result is None:
        return COMPLETED
    if timer.timer_type == SERVICE_TASK:
        return Failed(
            "the result of a batch can't become variables; raise shardclock.Partly with an object for each timer"
        )
    return Completed(note="the result of a batch is not recorded; raise shardclock.Partly for single timers")


def _of_one(timer: Timer[Any], result: object) -> Outcome:
    return outcome_of(result) if isinstance(result, BaseException) else _returned(timer, result)


def _returned(timer: Timer[Any], result: object) -> Outcome:
    return with_variables(result) if timer.timer_type == SERVICE_TASK else completed(result)

"""Declare the functions that timers call."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter

from shardclock.payload import adapter_of
from shardclock.policy import Policy, given, length, number, whole
from shardclock.refusal import InvalidHandler, naming, naming_options, shown
from shardclock.signature import FunctionOfTimer, is_second_import, read_signature

TARGET = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,199}")
OTHER_TARGETS = ("webhook:", "job:", "process:")

FunctionT = TypeVar("FunctionT", bound=FunctionOfTimer)


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that timers call, with its policy; another process imports it by its `reference`."""

    target: str
    reference: str
    policy: Policy
    is_async: bool
    takes_batch: bool
    function: FunctionOfTimer = field(repr=False)
    payload: TypeAdapter[Any] | None = field(repr=False, compare=False)


_handlers: dict[str, Handler] = {}


@naming_options
def on_timer(  # noqa: PLR0913 - each is a term of the user's, with a default that fits most
    target: str,
    *,
    max_attempts: int = 20,
    timeout: str | timedelta = "PT30S",
    retry_min: str | timedelta = "PT1S",
    retry_max: str | timedelta = "PT1H",
    give_up_after: str | timedelta | None = None,
    expires_after: str | timedelta | None = None,
    concurrency: int | None = None,
    rate_per_s: float | None = None,
    batch: int = 1,
    priority: int = 2,
    num_cpus: float | None = None,
    memory_mib: int | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Declare that timers of a target call this function; the function itself is unchanged.

    The function takes one `Timer`, or a list of at most `batch` timers. The function is called at least once for each
    timer. If the function raises an exception, it is called again, after a pause that grows from `retry_min` to
    `retry_max`. The limits are `max_attempts` calls, and the time `give_up_after` after the firing. A delivery is
    discarded without a call if its first call has not started within `expires_after` after the due date. `Discard` and
    `RetryIn` override these rules.

    In one worker, at most `concurrency` calls run concurrently, and at most `rate_per_s` calls start per second.
    `num_cpus` and `memory_mib` are the resources that one process of the handler needs. When processor time is scarce,
    handlers of `priority` 1 get processor time before handlers of priority 2, 3 and 4.

    units:   durations are ISO 8601 texts such as "PT30S", or timedeltas; memory is in MiB
    errors:  InvalidHandler  the target, a number or the function is invalid; the message is one sentence
    """
    if callable(target):
        raise InvalidHandler(
            f'@on_timer is written without its target above {shown(target)}; write @on_timer("order.expired")'
        )

    def policy() -> Policy:
        return Policy(
            max_attempts=whole("max_attempts", max_attempts, 1, 1_000),
            timeout_s=length("timeout", timeout, "PT0.01S", "P1D"),
            # A retry without a pause would fail for the same reason.
            retry_min_s=length("retry_min", retry_min, "PT0.1S", "P1D"),
            retry_max_s=length("retry_max", retry_max, "PT0.1S", "P30D"),
            give_up_after_s=given(length, "give_up_after", give_up_after, "PT0.1S", "P365D"),
            expires_after_s=given(length, "expires_after", expires_after, "PT0.1S", "P365D"),
            concurrency=given(whole, "concurrency", concurrency, 1, 1_000),
            rate_per_s=given(number, "rate_per_s", rate_per_s, 0.001, 100_000),
            batch=whole("batch", batch, 1, 1_000),
            priority=whole("priority", priority, 1, 4),
            num_cpus=given(number, "num_cpus", num_cpus, 0, 1_024),
            memory_mib=given(whole, "memory_mib", memory_mib, 1, 1_048_576),
        )

    def declare(function: FunctionT) -> FunctionT:
        with naming(function):
            _check_target(target)
            _register(_made(target, function, policy()))
        return function

    return declare


def _register(made: Handler) -> None:
    """Add a handler to the declared handlers; a module that is loaded again replaces its own handlers."""
    taken = _handlers.get(made.target)
    if taken is not None and not is_second_import(taken.function, made.function):
        raise InvalidHandler(
            f"target {shown(made.target)} is taken: {taken.reference} has it, so {made.reference} can't have it;"
            " give each function its own target"
        )
    _handlers[made.target] = made


def declared() -> list[Handler]:
    """List the handlers that this process has imported, in the order of their first declaration."""
    return list(_handlers.values())


def _check_target(target: object) -> None:
    if not isinstance(target, str) or not TARGET.fullmatch(target):
        raise InvalidHandler(
            f"target {shown(target)} is refused: it must be 1 to 200 characters of a-z, 0-9, _ . : and -, and begin"
            " with a letter or digit; write one such as order.expired"
        )
    if target == "log" or target.startswith(OTHER_TARGETS):
        raise InvalidHandler(
            f"target {shown(target)} is no handler's: log, webhook:…, job:… and process:… are built in; choose another"
        )


def _made(target: str, function: FunctionOfTimer, policy: Policy) -> Handler:
    if not inspect.isfunction(function):
        raise InvalidHandler(
            f"{shown(function)} of target {shown(target)} is not a function; write a def, or an async def, of a module"
        )
    name = function.__qualname__
    called = f"{function.__module__}:{name}"
    if not name.isidentifier():
        raise InvalidHandler(
            f"handler {called} can't be found by another process, which imports package.module:function;"
            " write it as a separate def, at the top level of a module"
        )
    signature = read_signature(function, called=called)
    takes_batch = policy.batch > 1 if signature.takes_batch is None else signature.takes_batch
    if takes_batch and policy.batch == 1:
        raise InvalidHandler(
            f"handler {called} takes a list of timers, and batch is 1; set the largest number, such as batch=100,"
            " or take one Timer"
        )
    if policy.batch > 1 and not takes_batch:
        raise InvalidHandler(
            f"handler {called} takes one timer, and batch is {policy.batch}; take a list[Timer], or leave batch out"
        )
    adapter = adapter_of(signature.payload, handler=called)
    return Handler(target, called, policy, signature.is_async, takes_batch, function, adapter)

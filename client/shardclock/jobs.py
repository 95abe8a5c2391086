"""Declare the functions that jobs run."""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from shardclock.api.unchanged import refuse_changed
from shardclock.job_policy import JobPolicy
from shardclock.jsonb import TOO_DEEP, faults_of, is_too_deep
from shardclock.payload import adapter_of
from shardclock.policy import given, length, number, whole
from shardclock.reason import misfit
from shardclock.refusal import InvalidHandler, naming, naming_options, shown
from shardclock.signature import is_second_import, read_job_signature

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")
MISSED = ("fire_once", "fire_all", "skip")
OVERLAPS = ("skip", "queue", "replace")
RULE_CHARS_MAX = 200
CONFIG_BYTES_MAX = 65_536

FunctionT = TypeVar("FunctionT", bound=Callable[[Any], Any])


@dataclass(frozen=True, slots=True)
class Job:
    """A function that runs repeatedly, with its schedule; another process imports it by its `reference`.

    shape:   every_s, schedule  at most one of them is set; a job with neither runs only on request
             config             JSON text or None
    """

    name: str
    reference: str
    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int
    policy: JobPolicy
    config: str | None
    is_async: bool
    function: Callable[[Any], Any] = field(repr=False)
    adapter: TypeAdapter[Any] | None = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class JobSchedule:
    """The schedule of a job from the arguments of its decorator."""

    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int


_jobs: dict[str, Job] = {}


@naming_options
def job(  # noqa: PLR0913 - each is a term of the user's, with a default that fits most
    name: str | None = None,
    *,
    every: str | timedelta | None = None,
    cron: str | None = None,
    repeat: str | None = None,
    zone: str = "UTC",
    missed: str = "fire_once",
    overlap: str = "skip",
    priority: int = 2,
    max_runtime: str | timedelta = "PT1H",
    grace: str | timedelta = "PT10S",
    max_retries: int = 3,
    retry_period: str | timedelta = "PT30S",
    retry_max: str | timedelta = "PT1H",
    config: object = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory_mib: int | None = None,
) -> Callable[[FunctionT], FunctionT]:
    """Declare that this function runs repeatedly; the function itself is unchanged.

    `every` is the pause between the end of a run and the next start. `cron` and `repeat` (R/PT1H) set fixed start
    times, in `zone`. Without `every`, `cron` and `repeat`, the job runs only on request. A job has one run at a time.
    If a start is due during a run, `overlap` decides: `skip` skips the start, `queue` delays the start, and `replace`
    ends the run. A failed run is retried `max_retries` times. A run that takes longer than `max_runtime` is cancelled,
    and its process is killed `grace` later.

    The function takes one `Run`; with `Run[Settings]` the run's `config` is parsed as Settings. `num_cpus`, `num_gpus`
    and `memory_mib` are the resources that the process of a run needs. When processes are scarce, jobs of `priority` 1
    start before jobs of priority 2, 3 and 4.

    units:   durations are ISO 8601 texts such as "PT30S", or timedeltas; memory is in MiB
    errors:  InvalidHandler  one sentence names the fault in the name, a number or the function
    """
    if callable(name):
        raise InvalidHandler(
            f'@job is written without parentheses above {shown(name)}; write @job() or @job(every="PT15M")'
        )

    def declare(function: FunctionT) -> FunctionT:
        with naming(function):
            rule = rule_of(
                every=every, cron=cron, repeat=repeat, zone=zone, missed=missed, overlap=overlap, priority=priority
            )
            policy = policy_of(
                max_runtime=max_runtime,
                grace=grace,
                max_retries=max_retries,
                retry_period=retry_period,
                retry_max=retry_max,
                num_cpus=num_cpus,
                num_gpus=num_gpus,
                memory_mib=memory_mib,
            )
            _register(_made(name, function, rule, policy, config))
        return function

    return declare


def _register(made: Job) -> None:
    """Add a job to the declared jobs; a module that is loaded again replaces its own jobs."""
    taken = _jobs.get(made.name)
    if taken is not None and not is_second_import(taken.function, made.function):
        raise InvalidHandler(
            f"job {shown(made.name)} is taken: {taken.reference} has it, so {made.reference} can't have it;"
            " give each job its own name"
        )
    _jobs[made.name] = made


def rule_of(
    *,
    every: str | timedelta | None,
    cron: str | None,
    repeat: str | None,
    zone: str,
    missed: str,
    overlap: str,
    priority: int,
) -> JobSchedule:
    """Parse the schedule of a job from the decorator's arguments.

    errors:  InvalidHandler  one sentence names the fault
    """
    has_times = cron is not None or repeat is not None
    return JobSchedule(
        every_s=given(length, "every", every, "PT0.1S", "P365D"),
        schedule=_schedule(every, cron, repeat),
        zone=_of_start_times("zone", _text("zone", zone, 64), "UTC", has_times=has_times),
        missed=_of_start_times("missed", _one_of("missed", missed, MISSED), "fire_once", has_times=has_times),
        overlap=_one_of("overlap", overlap, OVERLAPS),
        priority=whole("priority", priority, 1, 4),
    )


def policy_of(
    *,
    max_runtime: str | timedelta,
    grace: str | timedelta,
    max_retries: int,
    retry_period: str | timedelta,
    retry_max: str | timedelta,
    num_cpus: float | None,
    num_gpus: float | None,
    memory_mib: int | None,
) -> JobPolicy:
    """Parse the limits of a job from the decorator's arguments.

    errors:  InvalidHandler  one sentence names the fault
    """
    return JobPolicy(
        max_runtime_s=length("max_runtime", max_runtime, "PT0.1S", "P30D"),
        grace_s=length("grace", grace, "PT0S", "PT1H"),
        max_retries=whole("max_retries", max_retries, 0, 1_000),
        retry_period_s=length("retry_period", retry_period, "PT0.1S", "P1D"),
        retry_max_s=length("retry_max", retry_max, "PT0.1S", "P30D"),
        num_cpus=given(number, "num_cpus", num_cpus, 0, 1_024),
        num_gpus=given(_gpus, "num_gpus", num_gpus, 0, 1_024),
        memory_mib=given(whole, "memory_mib", memory_mib, 1, 1_048_576),
    )


def _gpus(name: str, value: object, low: float, high: float) -> float:
    """Parse a number of GPUs: a fraction of one GPU, or a whole number, as Ray requires."""
    amount = number(name, value, low, high)
    if amount > 1 and amount != int(amount):
        raise InvalidHandler(f"{name} {amount:g} is refused: it must be a fraction below 1, or a whole number")
    return amount


def declared_jobs() -> list[Job]:
    """List the jobs that this process has imported, in the order of their first declaration."""
    return list(_jobs.values())


def _schedule(every: object, cron: object, repeat: object) -> str | None:
    said = [(name, text) for name, text in (("every", every), ("cron", cron), ("repeat", repeat)) if text is not None]
    if len(said) > 1:
        names = " and ".join(name for name, _ in said)
        raise InvalidHandler(f"a job has one of every, cron and repeat, and this one has {names}; leave out the others")
    if cron is not None:
        return _text("cron", cron, RULE_CHARS_MAX)
    return None if repeat is None else _text("repeat", repeat, RULE_CHARS_MAX)


def _of_start_times(name: str, text: str, default: str, *, has_times: bool) -> str:
    """Refuse `zone` and `missed` for a job without fixed start times; only `cron` and `repeat` set such times."""
    if text != default and not has_times:
        raise InvalidHandler(f"{name} {shown(text)} is refused: it belongs to cron and repeat; leave out {name}")
    return text


def _text(name: str, value: object, chars_max: int) -> str:
    if isinstance(value, str) and 1 <= len(value) <= chars_max and value.isprintable():
        return value
    raise InvalidHandler(f"{name} {shown(value)} is refused: it must be a text of 1 to {chars_max} characters")


def _one_of(name: str, value: object, words: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in words:
        return value
    raise InvalidHandler(f"{name} {shown(value)} is refused: it must be one of {', '.join(words)}")


def _made(name: object, function: Callable[[Any], Any], rule: JobSchedule, policy: JobPolicy, config: object) -> Job:
    if not inspect.isfunction(function):
        raise InvalidHandler(f"{shown(function)} is not a function; write a def, or an async def, of a module")
    called = f"{function.__module__}:{function.__qualname__}"
    if not function.__qualname__.isidentifier():
        raise InvalidHandler(
            f"job {called} can't be found by another process, which imports package.module:function;"
            " write it as a separate def, at the top level of a module"
        )
    named = function.__name__ if name is None else name
    if not isinstance(named, str) or not NAME.fullmatch(named):
        raise InvalidHandler(
            f"job {shown(named)} is refused: its name must be 1 to 100 characters of a-z, 0-9, _ . and -, and begin"
            ' with a letter or digit; give it one, such as @job("daily.report", …)'
        )
    signature = read_job_signature(function, called=called)
    adapter = adapter_of(signature.payload, handler=called)
    text = _config(config, adapter, called)
    return Job(
        named, called, rule.every_s, rule.schedule, rule.zone, rule.missed, rule.overlap, rule.priority, policy, text,
        signature.is_async, function, adapter,
    )  # fmt: skip


def _unstorable(text: str | None) -> str | None:
    if text is None:
        return None
    return f"config {TOO_DEEP}" if is_too_deep(text) else next(faults_of(json.loads(text), "config"), None)


def _config(config: object, adapter: TypeAdapter[Any] | None, called: str) -> str | None:
    """Convert a configuration to JSON, and check it against the type of the function's argument."""
    try:
        refuse_changed("config", config)
        text = None if config is None else json.dumps(config, default=to_jsonable_python, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidHandler(f"job {called} has a config that has no form in JSON: {shown(str(error))}") from None
    if text is not None and len(text.encode(errors="replace")) > CONFIG_BYTES_MAX:
        raise InvalidHandler(f"job {called} has a config of more than {CONFIG_BYTES_MAX:,} bytes; store it elsewhere")
    if fault := _unstorable(text):
        raise InvalidHandler(f"job {called} has a config that can't be stored: {fault}")
    if adapter is None:
        return text
    # Without a configuration, try an empty object, because the type may have defaults for all fields.
    why = ""
    for tried in [text] if text is not None else [None, "{}"]:
        try:
            adapter.validate_json("null" if tried is None else tried)
        except ValidationError as error:
            why = f"{error.title}: {misfit(error)}"
        else:
            return tried
    raise InvalidHandler(f"job {called} has a config that does not fit {why}; give it one by config={{…}}")

"""Read a job from a file; the file's fields are the arguments of the decorator and the name of the function."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from inspect import signature
from types import MappingProxyType
from typing import Any

from shardclock import InvalidHandler, job
from shardclock.jobs import NAME, policy_of, rule_of
from shardclock_server.jobs.spec import InvalidJob, JobSpec, check_rule
from shardclock_server.timers.payload import payload_of
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.zone import zone_of

# A field that is missing in a file has the decorator's default.
OPTIONS: Mapping[str, Any] = MappingProxyType(
    {it.name: it.default for it in signature(job).parameters.values() if it.kind is it.KEYWORD_ONLY}
)
OF_RULE = ("every", "cron", "repeat", "zone", "missed", "overlap", "priority")
OF_POLICY = tuple(name for name in OPTIONS if name not in (*OF_RULE, "config"))
FIELDS = ("name", "function", *OPTIONS, "disabled")
FUNCTION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
FUNCTION_CHARS_MAX = 200
EXAMPLE = '{"name": "refresh-eu", "function": "recurring:refresh", "every": "PT15M"}'


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job from a file; if `disabled` is None, the job keeps its present state."""

    spec: JobSpec
    disabled: bool | None


def read_entry(value: object, *, now: datetime) -> JobEntry:
    """Read a job from a file's JSON value; null means the default.

    The job's rule must have an occurrence after `now`.

    errors:  InvalidJob  the message names the first field at fault, its value, the rule and the way out
    """
    if not isinstance(value, dict):
        raise InvalidJob(f"{shortened(value)} is not a JSON object; write one such as {EXAMPLE}")
    for field in value:
        if field not in FIELDS:
            raise InvalidJob(f"{shortened(field)} is not a field of a job; the fields are {', '.join(FIELDS)}")
    given = {**OPTIONS, **{field: given for field, given in value.items() if given is not None}}
    spec = _spec_of(_name(given.get("name")), _function(given.get("function")), given)
    check_rule(spec, now=now)
    disabled = given.get("disabled")
    if disabled is not None and not isinstance(disabled, bool):
        raise InvalidJob(f"disabled {shortened(disabled)} is refused: it must be true or false")
    return JobEntry(spec, disabled)


def _spec_of(name: str, function: str, given: Mapping[str, Any]) -> JobSpec:
    try:
        rule = rule_of(**{word: given[word] for word in OF_RULE})
        policy = policy_of(**{word: given[word] for word in OF_POLICY})
    except InvalidHandler as refusal:
        raise InvalidJob(str(refusal)) from None
    try:
        zone_of(rule.zone)
    except InvalidTimer as refusal:
        raise InvalidJob(f"zone {refusal}") from None
    return JobSpec(
        name=name,
        reference=function,
        every_s=rule.every_s,
        schedule=rule.schedule,
        zone=rule.zone,
        missed=rule.missed,
        overlap=rule.overlap,
        priority=rule.priority,
        config=_config(given["config"]),
        policy=policy,
    )


def _name(name: object) -> str:
    if isinstance(name, str) and NAME.fullmatch(name):
        return name
    raise InvalidJob(
        f"name {shortened(name)} is refused: it must be 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a"
        " letter or digit"
    )


def _function(function: object) -> str:
    if isinstance(function, str) and len(function) <= FUNCTION_CHARS_MAX and FUNCTION.fullmatch(function):
        return function
    raise InvalidJob(
        f"function {shortened(function)} is refused: it must be package.module:function, a function of an app that has"
        " @shardclock.job above it"
    )


def _config(config: object) -> str | None:
    try:
        return None if config is None else payload_of(config)
    except InvalidTimer as refusal:
        raise InvalidJob(f"config {refusal}") from None

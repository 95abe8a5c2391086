"""The name, rule, policy and configuration of a job, as declared in the app's code."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from shardclock import JobPolicy
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduleRule
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.schedule import first_of, parse_schedule


class InvalidJob(Refusal):
    """Refuse an invalid job."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job's function, its rule and its policy.

    shape:   every_s, schedule  at most one of them is set; a job with neither runs only on request
             config             JSON text or None
             config_outline     the schema of the configurations that the function accepts, as JSON text; None: any
    """

    name: str
    reference: str
    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int
    config: str | None
    policy: JobPolicy
    config_outline: str | None = None

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """Read the output of `shardclock.describe_jobs` or of `to_json`."""
        return cls(**{**described, "policy": JobPolicy(**described["policy"])})

    def to_json(self) -> dict[str, Any]:
        """Write the job as JSON values."""
        return asdict(self)


def check_rule(spec: JobSpec, *, now: datetime) -> None:
    """Check a job's rule here, because the client has no calendar, which the check needs.

    errors:  InvalidJob  the rule or its zone can't be read, or the rule has an end or no occurrence after `now`
    """
    if spec.schedule is None:
        return
    try:
        rule = parse_schedule(spec.schedule, spec.zone)
        _check_goes_on(spec, rule)
        first_of(rule, now)
    except InvalidTimer as refusal:
        raise InvalidJob(f"job {spec.name} ({spec.reference}) has a rule that is refused: {refusal}") from None


def _check_goes_on(spec: JobSpec, rule: ScheduleRule) -> None:
    if rule.repetitions != WITHOUT_END:
        raise InvalidJob(
            f"job {spec.name} ({spec.reference}) has the rule {shortened(str(rule))}, which ends after"
            f" {rule.repetitions}; a job has no end: write R/ without a number, or schedule timers"
        )
    if isinstance(rule, Repeat) and rule.end is not None:
        raise InvalidJob(
            f"job {spec.name} ({spec.reference}) has the rule {shortened(str(rule))}, which ends on {rule.end:%F};"
            " a job has no end: write only a start before the duration, or no start, or schedule timers"
        )

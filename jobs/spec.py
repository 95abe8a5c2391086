"""Hold a job as its app declares it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from shardclock import JobPolicy
from shardclock_server.timers.occurrence import WITHOUT_END, Rule
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.schedule import first_of, parse_schedule


class InvalidJob(Refusal):
    """Refuse what can't be a job."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One job: where its function is, when it runs, and how.

    shape:   `every_s` or `schedule`, or neither: then it runs on request alone; `config` is JSON text or None.
             `config_outline` says which configurations the function takes, as JSON text; None: any
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
        """Read what `shardclock.describe_jobs` wrote, or `to_json` of ours."""
        return cls(**{**described, "policy": JobPolicy(**described["policy"])})

    def to_json(self) -> dict[str, Any]:
        """Write it as JSON values."""
        return asdict(self)


def check_rule(spec: JobSpec, *, now: datetime) -> None:
    """Check the rule by which a job runs: the client, which has no calendar, took it as a text.

    errors:  InvalidJob  the rule or its zone can't be read, or the rule comes to an end or never occurs after `now`
    """
    if spec.schedule is None:
        return
    try:
        rule = parse_schedule(spec.schedule, spec.zone)
        _check_goes_on(spec, rule)
        first_of(rule, now)
    except InvalidTimer as refusal:
        raise InvalidJob(f"job {spec.name} ({spec.reference}) has a rule that is refused: {refusal}") from None


def _check_goes_on(spec: JobSpec, rule: Rule) -> None:
    if rule.repetitions != WITHOUT_END:
        raise InvalidJob(
            f"job {spec.name} ({spec.reference}) has the rule {shortened(str(rule))}, which ends after"
            f" {rule.repetitions}; a job goes on: write R/ without a number, or schedule timers"
        )
    if isinstance(rule, Repeat) and rule.end is not None:
        raise InvalidJob(
            f"job {spec.name} ({spec.reference}) has the rule {shortened(str(rule))}, which ends on {rule.end:%F};"
            " a job goes on: write its start before the duration, or none, or schedule timers"
        )

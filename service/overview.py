"""Read the content of an overview: punctuality, coming timers, and problems that need a person."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from shardclock_server.service.job_check import JobTrouble
from shardclock_server.service.unserved import line_of
from shardclock_server.service.wording import counted, span_of
from shardclock_server.sql.clients.refused import RefusedTimer, find_refused
from shardclock_server.sql.deliveries.dead_letters import TargetLetters, count_dead_letters_by_target
from shardclock_server.sql.deliveries.failing import FailingHandler, find_failing_handlers
from shardclock_server.sql.deliveries.unserved import find_unserved_targets
from shardclock_server.sql.endpoints.endpoints import ListedEndpoint, list_disabled_or_failing_endpoints
from shardclock_server.sql.metrics.coming import MINUTES, ComingTimers, count_coming
from shardclock_server.sql.metrics.past import LATE_S, PastMinute
from shardclock_server.sql.metrics.status import Status
from shardclock_server.sql.processes.incidents import FoundIncident, IncidentFilter, find_incidents
from shardclock_server.sql.session import Session

OBJECTIVE_MS = 100.0  # docs/operate/monitoring.md: 99 % of timers fire within 0.1 s of their due date.
OVERDUE_S = 1.0  # A timer that has just become due is overdue until its shard's next poll.
RECENT_MINUTES = 10  # A tenant's timers are on time if they have fired on time in the last minutes.
LATE_SHARE_MAX = 0.01  # The objective is for 99 % of the firings.
JUDGED_FIRINGS = 100  # With fewer firings than this, a single late firing would decide the 99th percentile.
LETTERS_MAX = 1_000  # At most this many dead letters of one target are counted.
TARGETS_MAX = 50
INCIDENTS_MAX = 100
ENDPOINTS_MAX = HANDLERS_MAX = 100
REFUSED_MAX = 100
OTHERS = "other targets"


@dataclass(frozen=True, slots=True)
class Punctuality:
    """Whether timers fire on time, and a sentence with the deciding figure."""

    is_on_time: bool
    why: str


@dataclass(frozen=True)
class Coming:
    """The numbers of overdue timers, and of timers that are due in each of the next 30 minutes, by target."""

    counts: Sequence[ComingTimers]

    @property
    def overdue(self) -> int:
        """The number of overdue timers."""
        return sum(it.timers for it in self.counts if it.minute == 0)

    def oldest_overdue_s(self, now: datetime) -> float:
        """Return by how much the oldest overdue timer is overdue; 0: no timer is overdue."""
        return max(((now - it.oldest_due_at).total_seconds() for it in self.counts if it.minute == 0), default=0.0)

    @property
    def estimated(self) -> bool:
        """Whether the numbers are estimates from a sample."""
        return any(it.estimated for it in self.counts)

    @cached_property
    def minutes(self) -> list[Mapping[str, int]]:
        """For each of the next minutes, the number of due timers by target."""
        found: list[Counter[str]] = [Counter() for _ in range(MINUTES)]
        for it in self.counts:
            if 0 < it.minute <= MINUTES:
                found[it.minute - 1][it.target or OTHERS] += it.timers
        return list(found)

    @cached_property
    def targets(self) -> Sequence[tuple[str, int]]:
        """The number of timers of each target in the next 30 minutes, the target with the most timers first."""
        return sum((Counter(minute) for minute in self.minutes), Counter[str]()).most_common()


@dataclass(frozen=True, slots=True)
class Attention:
    """The rows of one tenant that need a person. Only operators get `jobs` and `unserved`.

    `unserved` is a sentence about handlers and jobs without a running worker, or ''.

    shape:   at most LETTERS_MAX letters for each of TARGETS_MAX targets, and INCIDENTS_MAX, ENDPOINTS_MAX,
             HANDLERS_MAX and REFUSED_MAX rows: a full list means that there may be more rows
    """

    dead_letters: Mapping[str, TargetLetters]
    incidents: Sequence[FoundIncident]
    endpoints: Sequence[ListedEndpoint]
    handlers: Sequence[FailingHandler]
    jobs: JobTrouble
    refused: Sequence[RefusedTimer]
    unserved: str

    @property
    def incident_groups(self) -> list[Sequence[FoundIncident]]:
        """The incidents, grouped by process, node and message; the largest group comes first."""
        groups: dict[tuple[str, str, str], list[FoundIncident]] = {}
        for it in self.incidents:
            groups.setdefault((it.process_id, it.node_id, it.sentence), []).append(it)
        return sorted(groups.values(), key=len, reverse=True)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing needs the attention of a person."""
        of_tenant = self.dead_letters or self.incidents or self.endpoints or self.handlers or self.refused
        of_jobs = self.jobs.late_s or self.jobs.failed or self.jobs.long_runs
        return not (of_tenant or of_jobs or self.unserved)


def judge(status: Status, *, serving: int, hold: str | None) -> Punctuality:
    """Judge whether timers fire on time, by the oldest overdue timer and the lag of the last minute."""
    if hold is not None:
        return Punctuality(False, hold)
    if not serving:
        return Punctuality(False, "no shard is running, so nothing fires: start one with `shardclock up`")
    return judge_lag(status)


def judge_lag(status: Status) -> Punctuality:
    """Judge whether timers fire on time while shards run and no hold is in force."""
    if status.oldest_overdue_s > OVERDUE_S:
        return Punctuality(False, f"the oldest overdue timer waits for {span_of(status.oldest_overdue_s)}")
    if status.lag_p99_ms is None:
        return Punctuality(True, "no timer is overdue, and the last 10,000 records of the log contain no firing")
    if status.lag_p99_lately_ms is None or status.fired_lately < JUDGED_FIRINGS:
        return Punctuality(True, "no timer is overdue; too few firings of the last minute for a lag")
    lag = (
        f"99 % of {status.fired_lately:,} firings of the last minute had a lag of at most"
        f" {status.lag_p99_lately_ms:.1f} ms"
    )
    return Punctuality(status.lag_p99_lately_ms <= OBJECTIVE_MS, f"{lag}; the objective is {OBJECTIVE_MS:.0f} ms")


def judge_tenant(minutes: Sequence[PastMinute], *, overdue_s: float, is_held: bool) -> Punctuality:
    """Judge whether a tenant's timers fire on time, by its oldest overdue timer and its firings of the last minutes."""
    if is_held:
        return Punctuality(False, "nothing fires until an operator releases the database; new timers are kept")
    if overdue_s > OVERDUE_S:
        return Punctuality(False, f"the oldest overdue timer waits for {span_of(overdue_s)}")
    fired, late = sum(it.fired for it in minutes), sum(it.late for it in minutes)
    if not fired:
        return Punctuality(True, f"no timer is overdue, and no timer has fired in the last {RECENT_MINUTES} minutes")
    about = "about " if any(it.estimated for it in minutes) else ""
    firings = (
        f"{about}{counted(fired, 'firing')} in the last {RECENT_MINUTES} minutes had a lag of more than {LATE_S:g} s"
    )
    if not late:
        return Punctuality(True, f"none of {firings}")
    latest = span_of(max(it.latest_s or 0.0 for it in minutes))
    return Punctuality(late <= fired * LATE_SHARE_MAX, f"{about}{late:,} of {firings}, the latest by {latest}")


async def read_coming(session: Session, tenant_id: str, *, is_operator: bool) -> Coming:
    """Count a tenant's overdue timers, and its timers that are due in the next 30 minutes.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    return Coming(await count_coming(session, tenant_id, with_jobs=is_operator))


async def read_attention(session: Session, tenant_id: str, *, jobs: JobTrouble | None) -> Attention:
    """Find the rows of a tenant that need a person; `jobs` is None for a caller that is not an operator.

    The caller reads `jobs` in a session of all tenants, because a session of one tenant sees no runs.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    letters = await count_dead_letters_by_target(session, tenant_id, targets_max=TARGETS_MAX, letters_max=LETTERS_MAX)
    incidents = await find_incidents(session, IncidentFilter(tenant_id), limit=INCIDENTS_MAX)
    endpoints = await list_disabled_or_failing_endpoints(session, tenant_id, limit=ENDPOINTS_MAX)
    handlers = await find_failing_handlers(session, tenant_id, limit=HANDLERS_MAX)
    is_operator = jobs is not None
    refused = await find_refused(session, tenant_id, with_jobs=is_operator, limit=REFUSED_MAX)
    unserved = line_of(await find_unserved_targets(session)) if is_operator else ""
    return Attention(letters, incidents, endpoints, handlers, jobs or JobTrouble({}, {}), refused, unserved)

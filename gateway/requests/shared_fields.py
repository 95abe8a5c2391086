"""Fields that several routes share: the reason, durations, variables, and filters of the caller's timers."""

from typing import Annotated, Any, ClassVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from shardclock.api.codes import REFUSED
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.service.filters import GivenFilter, filter_of
from shardclock_server.service.pauses import Pause, read_until
from shardclock_server.service.single_change import UnknownTimer
from shardclock_server.sql.clients.history import TimerState, find_timer
from shardclock_server.sql.clients.search import PageLimits, TimerFilter
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import MissedChoice

PROCESSES_LISTED_MAX = 1_000  # one page lists at most this many instances or tasks
BUSINESS_KEY_CHARS_MAX = 255
TIMERS_PAGE = PageLimits(within_s=1.0, payload_bytes=4 * 2**20)
ORDER = {"order": 42}


class ReasonRequest(BaseModel):
    """The reason of a change."""

    model_config = ConfigDict(extra="forbid")

    reason: str | None = Field(
        None, max_length=1_000, description="the reason, which the record stores", examples=["order was paid"]
    )


class PauseRequest(ReasonRequest):
    """The reason and the end of a pause."""

    until: str | None = Field(
        None,
        examples=["2027-01-31T08:00:00Z"],
        description="the end of the pause, a moment or an ISO 8601 duration from now; without it, the pause lasts"
        " until a resume",
    )
    missed: MissedChoice = Field(
        MissedChoice.POLICY,
        description="with `until`: the rule for occurrences that a schedule misses during the pause, as for a resume",
    )

    def pause(self) -> Pause:
        """Read the end of the pause.

        errors:  InvalidTimer  the end is neither a moment nor a duration
        """
        return Pause(read_until(self.until), self.missed, self.reason)


class ResumeRequest(BaseModel):
    """How a resume treats the occurrences that were missed during the pause."""

    model_config = ConfigDict(extra="forbid")

    missed: MissedChoice = Field(
        MissedChoice.POLICY,
        examples=["skip"],
        description="the rule for the occurrences that a schedule missed during the pause: policy (its own rule), skip,"
        " fire_once or fire_all",
    )


class VariablesRequest(BaseModel):
    """Variables that a request gives or sets."""

    model_config = ConfigDict(extra="forbid")

    variables: dict[str, Any] = Field(default_factory=dict, examples=[ORDER])


DryRun = Annotated[bool, Query(description="return the result without making the change")]
PAID = {"reason": "order was paid"}
CLOSED = {"reason": "the shop is closed", "until": "2027-01-31T08:00:00Z"}
MAINTENANCE = {"reason": "maintenance"}


class ManyRequest(BaseModel):
    """The rows to change; a change of all rows needs `every`."""

    model_config = ConfigDict(extra="forbid")

    THINGS: ClassVar[str]
    FILTERS: ClassVar[tuple[str, ...]]

    every: bool = Field(False, description="true selects all, for a request without a filter")

    def check(self) -> None:
        """Refuse a request with neither a filter nor `every`, because the caller has probably forgotten the filter.

        errors:  Problem
        """
        if not self.every and all(getattr(self, name) in (None, False) for name in self.FILTERS):
            *others, last = self.FILTERS
            raise Problem(
                REFUSED,
                f"the request does not select any {self.THINGS}; give {', '.join(others)} or {last},"
                ' or "every": true for all',
            )


class TimersFilter(BaseModel):
    """A filter of timers; a missing field excludes no timer."""

    model_config = ConfigDict(extra="forbid")

    name_prefix: str | None = Field(
        None, description="only timers with a name that begins with this text", examples=["order-"]
    )
    name_contains: str | None = Field(
        None,
        description="only timers with this text in their name, in upper or lower case; a list is sorted by name",
    )
    due_from: str | None = Field(
        None, description="only timers due at this moment or later", examples=["2027-01-01T00:00:00Z"]
    )
    due_before: str | None = Field(
        None, description="only timers due before this moment", examples=["2027-02-01T00:00:00Z"]
    )
    changed_from: str | None = Field(
        None,
        description="only timers that a client changed at this moment or later; paused timers: paused since then, ended"
        " timers: ended since then",
    )
    changed_before: str | None = Field(
        None,
        description="only timers that a client changed before this moment; paused and ended timers: as `changed_from`",
    )
    target: str | None = Field(None, description="only timers with this target", examples=["webhook:billing"])
    process_instance_key: int | None = Field(
        None, ge=1, le=BIGINT_MAX, description="only timers of this instance of a process"
    )
    only_schedules: bool = Field(False, description="true: only timers with a rule")

    def filter_of(self, caller: Caller) -> TimerFilter:
        """Return the filter of the caller's timers."""
        given = {name: getattr(self, name) for name in TimersFilter.model_fields}
        return filter_of(GivenFilter(tenant_id=caller.tenant_id, **given))


def seconds_of(name: str, text: str) -> float:
    """Parse an ISO 8601 duration to seconds; a refusal begins with the name of its field.

    errors:  Problem  the text is not a duration
    """
    try:
        return parse_duration(text).average().total_seconds()
    except InvalidTimer as refusal:
        raise Problem(REFUSED, f"{name} {refusal}") from None


async def find_shown(session: Session, which: TimerRef, caller: Caller) -> TimerState:
    """Find a timer of the caller's tenant; a job's timer is visible only to an API key for all tenants.

    errors:  UnknownTimer  the timer does not exist, or the caller may not see it
    """
    timer = await find_own(session, which, caller)
    if not caller.sees(timer.tenant_id, timer.target):
        raise UnknownTimer(which)
    return timer


async def find_own(session: Session, which: TimerRef, caller: Caller) -> TimerState:
    """Find a timer of the caller's tenant; a timer of another tenant is reported as unknown.

    errors:  UnknownTimer  the timer does not exist
    """
    timer = await find_timer(session, which)
    if timer is None or timer.tenant_id != caller.tenant_id:
        raise UnknownTimer(which)
    return timer

"""What several routes are asked alike: why, for how long, with which variables, and which timers of its own."""

from typing import Annotated, Any, ClassVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.problems import REFUSED, Problem
from shardclock_server.service.filters import filter_of
from shardclock_server.service.single_change import UnknownTimer
from shardclock_server.sql.clients.history import Filter, TimerState, find_timer
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import parse_duration
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import InvalidTimer

PROCESSES_LISTED_MAX = 1_000  # of instances, of tasks
BUSINESS_KEY_CHARS_MAX = 255
ORDER = {"order": 42}


class ReasonRequest(BaseModel):
    """Why somebody changes something."""

    model_config = ConfigDict(extra="forbid")

    reason: str | None = Field(None, max_length=1_000, description="kept in the record", examples=["order was paid"])


class VariablesRequest(BaseModel):
    """Variables that are given or set."""

    model_config = ConfigDict(extra="forbid")

    variables: dict[str, Any] = Field(default_factory=dict, examples=[ORDER])


DryRun = Annotated[bool, Query(description="say what would be done, and do nothing")]
PAID = {"reason": "order was paid"}
MAINTENANCE = {"reason": "maintenance"}


class ManyRequest(BaseModel):
    """Which of many things are changed; all of them are only if that is said."""

    model_config = ConfigDict(extra="forbid")

    THINGS: ClassVar[str]
    FILTERS: ClassVar[tuple[str, ...]]

    every: bool = Field(False, description="without a filter: all are meant")

    def check(self) -> None:
        """Refuse to change everything because a filter was forgotten.

        errors:  Problem
        """
        if not self.every and all(getattr(self, name) in (None, False) for name in self.FILTERS):
            *others, last = self.FILTERS
            raise Problem(
                REFUSED,
                f"nothing says which {self.THINGS} are meant; give {', '.join(others)} or {last},"
                ' or "every": true for all',
            )


class TimersFilter(BaseModel):
    """Which timers are meant; what is not given leaves none out."""

    model_config = ConfigDict(extra="forbid")

    name_prefix: str | None = Field(None, description="whose name begins with this", examples=["order-"])
    due_from: str | None = Field(None, description="due at this moment or later", examples=["2027-01-01T00:00:00Z"])
    due_before: str | None = Field(None, description="due before this moment", examples=["2027-02-01T00:00:00Z"])
    target: str | None = Field(None, description="with this target", examples=["webhook:billing"])
    process_instance_key: int | None = Field(None, ge=1, le=BIGINT_MAX, description="of this instance of a process")

    def filter_of(self, caller: Caller) -> Filter:
        """Make it a filter of the caller's timers."""
        return filter_of(
            caller.tenant_id,
            self.name_prefix,
            self.due_from,
            self.due_before,
            self.process_instance_key,
            target=self.target,
        )


def seconds_of(name: str, text: str) -> float:
    """Read a length of time, an ISO 8601 duration; a refusal begins with the name of its field.

    errors:  Problem  it is none
    """
    try:
        return parse_duration(text).average().total_seconds()
    except InvalidTimer as refusal:
        raise Problem(REFUSED, f"{name} {refusal}") from None


async def find_shown(session: Session, which: TimerRef, caller: Caller) -> TimerState:
    """Find a timer of the caller's tenant to show it; those of jobs are shown to keys for all tenants alone.

    errors:  UnknownTimer  there is none
    """
    timer = await find_own(session, which, caller)
    if not caller.sees(timer.tenant_id, timer.target):
        raise UnknownTimer(which)
    return timer


async def find_own(session: Session, which: TimerRef, caller: Caller) -> TimerState:
    """Find a timer of the caller's tenant; one of another tenant is not there.

    errors:  UnknownTimer  there is none
    """
    timer = await find_timer(session, which)
    if timer is None or timer.tenant_id != caller.tenant_id:
        raise UnknownTimer(which)
    return timer

"""Decide from a timer's state whether a verb (cancel, pause, resume, run, move) has succeeded, or why it has failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardclock.api.codes import RefusalCode
from shardclock.api.refusals.timers import TIMER_ENDED, TIMER_PAUSED, UNKNOWN_TIMER

UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class VerbOutcomes:
    """The meaning of each state after one verb.

    `done` maps each state that means success to the word that the command line prints. `refused` maps each other state
    to a refusal code. `shows_date`: the verb changes the due date, so the caller also reads the new date.
    """

    done: Mapping[str, str]
    refused: Mapping[str, RefusalCode] = field(default_factory=dict)
    shows_date: bool = False

    def code_of(self, state: str) -> RefusalCode:
        """Return the refusal code for a state that means failure; UNKNOWN means that the timer does not exist."""
        return UNKNOWN_TIMER if state == UNKNOWN else self.refused.get(state, TIMER_ENDED)


CANCELED = VerbOutcomes({"CANCELED": "CANCELED"})
PAUSED = VerbOutcomes({"PAUSED": "PAUSED"})
RESUMED = VerbOutcomes({"PENDING": "PENDING"})
RUN = VerbOutcomes({"RESCHEDULED": "due now", "PENDING": "due already"}, refused={"PAUSED": TIMER_PAUSED})
RESCHEDULED = VerbOutcomes({"RESCHEDULED": "RESCHEDULED"}, shows_date=True)
# The meanings for each verb of `shardclock operate`.
OPERATED = {"pause": PAUSED, "resume": RESUMED, "reschedule": RESCHEDULED}


def named(timer_key: int | None, name: str | None, tenant_id: str) -> str:
    """Name a timer for people: by its key, or by its name and tenant."""
    return str(timer_key) if name is None else f"{name!r} of tenant {tenant_id!r}"

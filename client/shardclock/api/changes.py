"""Say what the state means that a verb leaves its timer in: whether it was done, and else why not.

A verb answers with the state that the timer has afterwards, whether it did anything or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What is said of each state in which a change leaves its timer.

    `done` has the states that mean success, each with the word to print. `advice` has other states, each with what the
    user can do. With `shows_date`, for changes that move a timer, its new due date is read, too.
    """

    done: Mapping[str, str]
    advice: Mapping[str, str] = field(default_factory=dict)
    shows_date: bool = False

    def why_not(self, which: object, state: str) -> str:
        """Say in a sentence why a timer was not changed; `which` names it, `state` is what it has."""
        if state in self.advice:
            return f"timer {which} {self.advice[state]}"
        return f"too late: timer {which} is {state} already"


CANCELED = Outcomes({"CANCELED": "CANCELED"})
PAUSED = Outcomes({"PAUSED": "PAUSED"})
RESUMED = Outcomes({"PENDING": "PENDING"})
RUN = Outcomes(
    {"RESCHEDULED": "due now", "PENDING": "due already"}, advice={"PAUSED": "is paused: resume it first, then run it"}
)
RESCHEDULED = Outcomes({"RESCHEDULED": "RESCHEDULED"}, shows_date=True)
# By the verbs of `operate`.
OPERATED = {"pause": PAUSED, "resume": RESUMED, "reschedule": RESCHEDULED}


def no_timer(which: object) -> str:
    """Say in a sentence that there is no such timer; `which` names it."""
    return f"there is no timer {which}, pending or ended"


def named(timer_key: int | None, name: str | None, tenant_id: str) -> str:
    """Name a timer for people: by its key, or by its name and tenant."""
    return str(timer_key) if name is None else f"{name!r} of tenant {tenant_id!r}"

"""Say why something was not done: one class for each sort of problem that a program decides on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PREFIX = "urn:shardclock:problem:"
UNKNOWN = "about:blank"  # as RFC 9457 has it: no more is known than the status
OWN_MEMBERS = ("type", "title", "status", "detail")
MAY_BE_DONE = "it may be done, so look before you ask for it again"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that was not done, or may not have been.

    shape:   `type` stays the same for ever; `status` is HTTP's, 0 if there was no answer, and over SQL; `detail` is one
             sentence; `members` are what this sort of problem has beside
    units:   `retry_after_s` is how long the gateway wants to be left alone, in seconds
    """

    type: str
    status: int
    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: float | None = None
    may_be_done: bool = False  # the request may have had its effect
    may_pass: bool = False  # the same request may succeed in a moment


class ApiError(Exception):
    """Tell that something was not done, in one sentence of Shardclock's: the value, the rule and the way out.

    A sort of problem that this client does not know has this class, too.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.detail}; {MAY_BE_DONE}" if self.may_be_done else self.detail

    @property
    def type(self) -> str:
        """Return what programs compare, such as urn:shardclock:problem:too-late."""
        return self.problem.type

    @property
    def status(self) -> int:
        """Return the status of HTTP; 0 if no answer came, and over SQL."""
        return self.problem.status

    @property
    def detail(self) -> str:
        """Return the sentence: the value, the rule and the way out."""
        return self.problem.detail

    @property
    def members(self) -> Mapping[str, Any]:
        """Return what this sort of problem has beside these."""
        return self.problem.members

    @property
    def may_be_done(self) -> bool:
        """Say whether the request may have had its effect, though it failed for the caller."""
        return self.problem.may_be_done


class NoKey(ApiError):
    """Tell that the request had no API key, or one that is not known (401)."""


class NotAllowed(ApiError):
    """Tell that the API key, or the role in Postgres, may not do this (403)."""


class NotFound(ApiError):
    """Tell that there is no such thing, or that it is another tenant's (404)."""


class TooLate(ApiError):
    """Tell that the timer is in another state (409): it has fired already, for example."""

    @property
    def state(self) -> str | None:
        """Return the state that it has."""
        state: str | None = self.members.get("state")
        return state


class NameTaken(ApiError):
    """Tell that a pending timer has this name (409)."""


class InFlight(ApiError):
    """Tell that the same request is still being answered (409)."""


class MoreMatch(ApiError):
    """Tell that more timers match than were counted (409): none was changed."""

    @property
    def matched(self) -> int | None:
        """Return how many match, or how many were found before the search ended."""
        matched: int | None = self.members.get("matched")
        return matched


class Conflict(ApiError):
    """Tell that its present state does not allow this (409)."""

    @property
    def state(self) -> str | None:
        """Return the state that it has, of a task such as TAKEN, COMPLETED_BEFORE or CANCELED; None: it has none."""
        state: str | None = self.members.get("state")
        return state


class Stale(ApiError):
    """Tell that it is not as you have read it (412): read it again, and decide."""


class TooLarge(ApiError):
    """Tell that the body is too large (413)."""


class Refused(ApiError):
    """Tell that what is asked for is refused (422): the same request will be refused again."""


class OtherRequest(ApiError):
    """Tell that the idempotency key came with another request within a day (422)."""


class TooMany(ApiError):
    """Tell that the tenant writes more than it may (429): nothing was done."""


class OverQuota(ApiError):
    """Tell that the tenant has as much of something as it may have (429): nothing was done."""

    @property
    def quota(self) -> str | None:
        """Return of what: timers, payload_bytes, waiters or endpoints."""
        quota: str | None = self.members.get("quota")
        return quota

    @property
    def limit(self) -> int | None:
        """Return how much of it the tenant may have."""
        limit: int | None = self.members.get("limit")
        return limit


class Unavailable(ApiError):
    """Tell that Postgres or the gateway gave no answer in time (503): it may have been done, or not."""


class NoAnswer(Unavailable):
    """Tell that no gateway answered: it can't be reached, or the connection was lost."""


class Broken(ApiError):
    """Tell that the gateway has failed (500); its log says why."""


BY_NAME: Mapping[str, type[ApiError]] = {
    "no-key": NoKey,
    "not-allowed": NotAllowed,
    "not-found": NotFound,
    "too-late": TooLate,
    "name-taken": NameTaken,
    "in-flight": InFlight,
    "more-match": MoreMatch,
    "conflict": Conflict,
    "stale": Stale,
    "too-large": TooLarge,
    "refused": Refused,
    "other-request": OtherRequest,
    "too-many": TooMany,
    "over-quota": OverQuota,
    "unavailable": Unavailable,
    "no-answer": NoAnswer,  # the client's own
    "broken": Broken,
}


def error_of(problem: Problem) -> ApiError:
    """Make the error of a problem's own class; of a sort that is not known, an ApiError."""
    return BY_NAME.get(problem.type.removeprefix(PREFIX), ApiError)(problem)

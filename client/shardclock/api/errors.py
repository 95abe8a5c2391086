"""The errors of failed requests: one class for each type of problem."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardclock.api.codes import GENERAL, PREFIX
from shardclock.api.refusals import code_of

UNKNOWN = "about:blank"  # RFC 9457: this type says nothing beyond the status
OWN_MEMBERS = ("type", "title", "status", "detail")
MAY_BE_DONE = "the request may have been executed, so check before you repeat it"


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a request was not done, or why its outcome is unknown.

    shape:   type     stable
             status   the HTTP status; 0 without a response or over SQL
             detail   one sentence
             members  the additional members of this type
    units:   `retry_after_s` is the shortest pause before a retry that the gateway requests, in seconds
    """

    type: str
    status: int
    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: float | None = None
    may_be_done: bool = False  # Whether the request may have been executed.
    may_pass: bool = False  # Whether the same request may succeed in a moment.

    @property
    def code(self) -> str:
        """The type without its prefix."""
        return self.type.removeprefix(PREFIX)


class ApiError(Exception):
    """A request was refused or had no answer; a problem of an unknown type raises this class itself."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.detail}; {MAY_BE_DONE}" if self.may_be_done else self.detail

    @property
    def type(self) -> str:
        """The type of the problem, such as urn:shardclock:problem:timer_ended."""
        return self.problem.type

    @property
    def code(self) -> str:
        """The stable code of the refusal, such as timer_ended; programs compare it."""
        return self.problem.code

    @property
    def status(self) -> int:
        """The status of HTTP; 0 without a response, and over SQL."""
        return self.problem.status

    @property
    def detail(self) -> str:
        """One sentence with the value, the rule and the remedy."""
        return self.problem.detail

    @property
    def members(self) -> Mapping[str, Any]:
        """The additional members of this type of problem."""
        return self.problem.members

    @property
    def may_be_done(self) -> bool:
        """Whether the server may have executed the request, although the caller got an error."""
        return self.problem.may_be_done


class NoKey(ApiError):
    """The request had no API key, or an unknown API key (401)."""


class NotAllowed(ApiError):
    """The API key, the role in Postgres or the web page lacks the right (403)."""


class NotFound(ApiError):
    """The requested timer, instance, job or other resource does not exist, or belongs to another tenant (404)."""


class TooLate(ApiError):
    """The timer is in another state (409): for example, it has fired already."""

    @property
    def state(self) -> str | None:
        """The state of the timer."""
        state: str | None = self.members.get("state")
        return state


class NameTaken(ApiError):
    """Another pending timer has the requested name (409)."""


class InFlight(ApiError):
    """The same request is still in progress (409)."""


class MoreMatch(ApiError):
    """More timers match than were counted (409): no timer was changed."""

    @property
    def matched(self) -> int | None:
        """The number of matching timers, or of the timers found before the search ended."""
        matched: int | None = self.members.get("matched")
        return matched


class Conflict(ApiError):
    """The present state of the timer, task, instance or other resource does not allow the change (409)."""

    @property
    def state(self) -> str | None:
        """The present state, for example TAKEN, COMPLETED_BEFORE or CANCELED for a task; None: unknown."""
        state: str | None = self.members.get("state")
        return state


class Stale(ApiError):
    """The timer was changed since the caller read the timer (412): read the timer again, and decide."""


class TooLarge(ApiError):
    """The body is too large (413)."""


class Refused(ApiError):
    """The request is invalid (422): a retry can't succeed."""


class OtherRequest(ApiError):
    """The idempotency key was used for a different request within the last day (422)."""


class TooMany(ApiError):
    """The tenant's rate is used up (429): nothing was done."""


class OverQuota(ApiError):
    """The tenant has used up a quota (429): nothing was done."""

    @property
    def quota(self) -> str | None:
        """The quota, such as timers, payload_bytes, waiters or endpoints."""
        quota: str | None = self.members.get("quota")
        return quota

    @property
    def limit(self) -> int | None:
        """The tenant's limit for this quota."""
        limit: int | None = self.members.get("limit")
        return limit


class Unavailable(ApiError):
    """Postgres or the gateway gave no answer in time (503): whether the request was executed is unknown."""


class NoAnswer(Unavailable):
    """No gateway answered: the gateway can't be reached, or the connection was lost."""


class Broken(ApiError):
    """The gateway has failed (500); its log has the reason."""


BY_NAME: Mapping[str, type[ApiError]] = {
    "no_key": NoKey,
    "not_allowed": NotAllowed,
    "not_found": NotFound,
    "too_late": TooLate,
    "name_taken": NameTaken,
    "in_flight": InFlight,
    "more_match": MoreMatch,
    "conflict": Conflict,
    "stale": Stale,
    "too_large": TooLarge,
    "refused": Refused,
    "other_request": OtherRequest,
    "too_many": TooMany,
    "over_quota": OverQuota,
    "unavailable": Unavailable,
    "no_answer": NoAnswer,  # the client itself raises this error; no gateway sends it
    "broken": Broken,
}
# Maps a status to its general code, for specific codes of newer gateways that this client does not know.
BY_STATUS: Mapping[int, str] = {code.status: code.name for code in GENERAL}


def error_of(problem: Problem) -> ApiError:
    """Create the error for a problem. Its general code determines the class; a problem of another server is an
    ApiError.
    """
    if not problem.type.startswith(PREFIX):
        return ApiError(problem)
    code = code_of(problem.code)
    general = BY_STATUS.get(problem.status, "") if code is None else code.general
    return BY_NAME.get(general, ApiError)(problem)

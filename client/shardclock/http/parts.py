"""Split many timers into requests of lines, and store the outcome of each line.

After a lost answer, only lines that can't create a duplicate timer are sent again: lines with an idempotency key, and
lines with a name and `on_conflict` `ignore`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from shardclock.api.answers import Line
from shardclock.api.codes import UNAVAILABLE
from shardclock.api.errors import ApiError, Problem, error_of
from shardclock.api.fields import New, NewLine
from shardclock.http.problems import foreign_error
from shardclock.http.requests import NDJSON, TIMERS, Request, body_of
from shardclock.refusal import shown

LINES_MAX = 10_000  # The gateway's own limit of lines in one request.
PART_BYTES_MAX = 4 * 1024 * 1024  # The gateway waits at most ten seconds for the whole body.
LOST = ("unknown", "untried")  # The outcomes that a gateway reports if Postgres did not answer for the line.
EXAMPLE: New = {"delay": "PT1H"}
NO_REASON = "Postgres gave no answer"
NOT_ANSWERED = Line(line=0, outcome="unknown", why="the answer ended too early")


@dataclass(slots=True)
class RequestPart:
    """The lines of one request by number: the lines without an outcome, and the outcomes of the other lines."""

    waiting: dict[int, bytes]
    repeatable: frozenset[int]
    outcomes: dict[int, Line] = field(default_factory=dict)
    is_unsure: bool = False  # whether Postgres may have stored lines without an outcome

    @property
    def request(self) -> Request:
        """The request for all timers without an outcome."""
        body = b"\n".join(self.waiting.values())
        return Request("POST", f"{TIMERS}/bulk", {}, body, {"Content-Type": NDJSON}, is_repeatable=False)

    def take(self, answer: Iterable[bytes]) -> ApiError | None:
        """Store the outcomes that a response contains, one JSON object for each line.

        shape:   the reason why lines without an outcome must be sent again; None: all lines have an outcome
        errors:  ApiError  the response has lines that can't come from a gateway
        """
        numbers = list(self.waiting)
        try:
            answered = {numbers[line.line - 1]: line for line in map(Line.model_validate_json, answer)}
        except (ValidationError, IndexError):
            raise foreign_error(self.request, 200) from None
        why = ""
        for number in numbers:
            line = answered.get(number, NOT_ANSWERED)
            if line.outcome not in LOST:
                self._end(line.model_copy(update={"line": number}))
                continue
            why = line.why or NO_REASON
            if line.outcome == "unknown":
                self._lose(number, why)
        if not self.waiting:
            return None
        return error_of(Problem(UNAVAILABLE.type, UNAVAILABLE.status, why, may_be_done=self.is_unsure, may_pass=True))

    def lose(self, error: ApiError) -> None:
        """After a lost answer, set `unknown` as the outcome of each line that a retry could store a second time."""
        if error.may_be_done:
            for number in list(self.waiting):
                self._lose(number, error.detail)

    def give_up(self, error: ApiError) -> None:
        """Set the outcome of all remaining lines: `unknown` or `untried`."""
        outcome = "unknown" if self.is_unsure else "untried"
        for number in list(self.waiting):
            self._end(Line(line=number, outcome=outcome, why=error.detail, code=error.code))

    def lines(self) -> Iterator[Line]:
        """Yield all outcomes, in the order of the lines."""
        yield from (self.outcomes[number] for number in sorted(self.outcomes))

    def _lose(self, number: int, why: str) -> None:
        """Set `unknown` as the outcome of a line after a lost answer, if a retry could store the line a second time."""
        if number in self.repeatable:
            self.is_unsure = True
        else:
            self._end(Line(line=number, outcome="unknown", why=why))

    def _end(self, line: Line) -> None:
        self.outcomes[line.line] = line
        del self.waiting[line.line]


def parts_of(timers: Iterable[New | NewLine], *, lines_max: int) -> Iterator[RequestPart]:
    """Split timers into parts of at most `lines_max` lines and at most 4 MiB.

    errors:  ValueError  a timer has no form in JSON, or `lines_max` is out of its bounds.
             TypeError   `timers` is not an iterable, or one of the timers is not a mapping.
    """
    if isinstance(timers, Mapping | str | bytes) or not isinstance(timers, Iterable):
        raise TypeError(f"timers {shown(timers)} is refused: it must be an iterable of timers; for one, write [timer]")
    if not 1 <= lines_max <= LINES_MAX:
        raise ValueError(f"part_lines {lines_max} is refused: it must be a whole number from 1 to {LINES_MAX:,}")
    waiting: dict[int, bytes] = {}
    repeatable: set[int] = set()
    size = 0
    for number, timer in enumerate(timers, start=1):
        if not isinstance(timer, Mapping):
            raise TypeError(
                f"timer {number}, {shown(timer)}, is refused: it must be a mapping of a timer's fields, such as"
                f" {EXAMPLE}"
            )
        line = _line_of(number, timer)
        if waiting and (len(waiting) == lines_max or size + len(line) > PART_BYTES_MAX):
            yield RequestPart(waiting, frozenset(repeatable))
            waiting, repeatable, size = {}, set(), 0
        waiting[number] = line
        size += len(line) + 1
        if _is_repeatable(timer):
            repeatable.add(number)
    if waiting:
        yield RequestPart(waiting, frozenset(repeatable))


def _line_of(number: int, timer: New | NewLine) -> bytes:
    try:
        return body_of(timer)
    except ValueError as error:
        raise ValueError(f"timer {number}: {error}") from error


def _is_repeatable(timer: New | NewLine) -> bool:
    """Return whether a line may be sent twice without scheduling a second timer."""
    is_left = timer.get("name") is not None and timer.get("on_conflict") == "ignore"
    return is_left or timer.get("idempotency_key") is not None

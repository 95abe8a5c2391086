# Written by `make docs` from async_client.py: change that, and write this anew.
"""Schedule, change and find timers through a gateway: what its reference has as routes are methods here."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from math import inf
from time import monotonic
from types import TracebackType
from typing import Any, Self, Unpack

from shardclock.api.answers import (
    Acted,
    BulkChanged,
    Changed,
    Counted,
    DeadLetter,
    DeadLettersPage,
    Explained,
    JobsPage,
    JobState,
    Line,
    LogPage,
    Occurrence,
    PreviewPage,
    Record,
    RecordsPage,
    Scheduled,
    Started,
    TimersPage,
    TimerState,
)
from shardclock.api.errors import ApiError
from shardclock.api.fields import Destination, Length, Moment, New, NewLine, Put
from shardclock.durations import seconds_of
from shardclock.http import asked as ask
from shardclock.http.asked import Chosen, Letters
from shardclock.http.parts import Part, parts_of
from shardclock.http.place import place_of
from shardclock.http.problems import no_answer
from shardclock.http.reading import read_answer
from shardclock.http.sync_processes import Processes
from shardclock.http.sync_sending import Sender
from shardclock.http.sync_tasks import Tasks

LASTING_S = 5.0  # a stream that was there for so long, or gave a record, is no failure in a row of failures
NO_CONTENT = 204


class Bulk:
    """Hold one verb for many timers, which were counted; nothing is changed before `commit`."""

    def __init__(self, sender: Sender, path: str, body: dict[str, object], counted: Counted) -> None:
        self._sender = sender
        self._path = path
        self._body = body
        self._counted = counted

    def __repr__(self) -> str:
        return f"<{self._path} matches {self.matched} timers>"

    @property
    def matched(self) -> int:
        """Return how many timers it would change."""
        return self._counted.matched

    def commit(self) -> BulkChanged:
        """Change them, within ten minutes of the count. If more timers match than were counted, none is changed.

        shape:   it is sent once: sent again, it would change timers that match only since then
        errors:  MoreMatch  more timers match than were counted: none was changed
                 Refused    the count is too old
        """
        asked = ask.act(self._path, self._body, is_repeatable=False, token=self._counted.token)
        return read_answer(BulkChanged, asked, (self._sender.send(asked)).content)


class Client:
    """Ask one gateway; one is enough for a program, which may share it.

    A request that was not answered is sent again, if it can't be done twice by that, until `retry_for` after the first
    failure. `processes` and `tasks` ask about processes.

    errors:  ApiError    of each method: it was not done, and the gateway says why in a sentence. `NoAnswer` is one,
                         too: no gateway answered in time
             ValueError  the URL or the key can't be used
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        insecure: bool = False,
        timeout: str | timedelta = "PT30S",
        retry_for: str | timedelta = "PT60S",
    ) -> None:
        self._place = place_of(url, key, tenant, insecure=insecure)
        timeout_s, retry_for_s = seconds_of(timeout), seconds_of(retry_for)
        self._sender = Sender(self._place, timeout_s=timeout_s, retry_for_s=retry_for_s)
        self.processes = Processes(self._sender)
        self.tasks = Tasks(self._sender)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._sender.close()

    def schedule(
        self, *, idempotency_key: str | None = None, wait: Length | None = None, **timer: Unpack[New]
    ) -> Scheduled:
        """Schedule a timer: give exactly one of `delay`, `due_date` and `schedule`.

        With `wait`, at most five minutes, the answer comes when the timer has ended, with the record as `end`, or with
        None when that time is over.

        errors:  NameTaken     a pending timer has its name, and `on_conflict` is not given
                 Refused       a field is wrong
                 OtherRequest  the key came with other fields within a day; without one, each call draws its own
        """
        asked = ask.once("POST", ask.TIMERS, timer, idempotency_key).waiting(wait)
        return self._sender.ask(Scheduled, asked)

    def put(
        self, name: str, *, idempotency_key: str | None = None, wait: Length | None = None, **timer: Unpack[Put]
    ) -> Scheduled:
        """Make the timer of a name, or replace it.

        errors:  as `schedule`, but for NameTaken
        """
        asked = ask.once("PUT", ask.timer_path(None, name), timer, idempotency_key).waiting(wait)
        return self._sender.ask(Scheduled, asked)

    def schedule_many(self, timers: Iterable[New | NewLine], *, part_lines: int = 5_000) -> Iterator[Line]:
        """Schedule many timers, at most 10,000 with one request, and say of each what became of it.

        If an answer is lost, those timers are sent again that have an `idempotency_key`, which protects for a day, or a
        name and `on_conflict="ignore"`, which protects for as long as the first one is pending. The outcome of the
        others is `unknown`, and the next ones go on.

        shape:   a line for each timer, in their order
        errors:  ApiError  after the lines of the part that failed: no gateway answered in time, or it refuses all
        """
        for part in parts_of(timers, lines_max=part_lines):
            failure = self._settle(part)
            for line in part.lines():
                yield line
            if failure is not None:
                raise failure

    def get(self, *, timer_key: int | None = None, name: str | None = None) -> TimerState:
        """Find a timer, pending or ended; its `etag` is for `move`.

        errors:  NotFound  there is none
        """
        asked = ask.read(ask.timer_path(timer_key, name))
        answer = self._sender.send(asked)
        return read_answer(TimerState, asked, answer.content).model_copy(update={"etag": answer.headers.get("etag")})

    def list(
        self, *, state: str = "pending", name: str | None = None, **chosen: Unpack[Chosen]
    ) -> Iterator[TimerState]:
        """Find timers: pending ones, soonest first, or paused ones, or those that ended, newest first.

        shape:   all of them, read page by page; `state` is pending, paused, triggered, canceled, skipped or ended
        """
        after: str | None = None
        while True:
            asked = ask.read(ask.TIMERS, state=state, name=name, limit=ask.PAGE, after=after, **chosen)
            page = self._sender.ask(TimersPage, asked)
            for timer in page.timers:
                yield timer
            if page.next is None:
                return
            after = page.next

    def move(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        **to: Unpack[Destination],
    ) -> Changed:
        """Move a timer: give exactly one of `due_date`, `delay` from now, `shift` and another `schedule`.

        errors:  Stale     it is not as it was when `if_match`, its `etag`, was read
                 TooLate   it has ended
                 NotFound  there is none
        """
        asked = ask.once("PATCH", ask.timer_path(timer_key, name), to, idempotency_key).matching(if_match)
        return self._sender.ask(Changed, asked)

    def cancel(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Changed:
        """Cancel a pending timer; the reason is kept in its record.

        errors:  TooLate   it has ended
                 NotFound  there is none
        """
        path = ask.timer_path(timer_key, name, "cancel")
        return self._sender.ask(Changed, ask.once("POST", path, {"reason": reason}, idempotency_key))

    def pause(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Changed:
        """Keep a pending timer from firing until it is resumed.

        errors:  as `cancel`
        """
        path = ask.timer_path(timer_key, name, "pause")
        return self._sender.ask(Changed, ask.once("POST", path, {"reason": reason}, idempotency_key))

    def resume(
        self, *, timer_key: int | None = None, name: str | None = None, idempotency_key: str | None = None
    ) -> Changed:
        """Resume a paused timer; one that fell due meanwhile is due at once.

        errors:  as `cancel`
        """
        return self._sender.ask(
            Changed, ask.once("POST", ask.timer_path(timer_key, name, "resume"), {}, idempotency_key)
        )

    def run(
        self, *, timer_key: int | None = None, name: str | None = None, idempotency_key: str | None = None
    ) -> Changed:
        """Make a pending timer due now; a schedule runs once more, and keeps its dates.

        errors:  as `cancel`
        """
        return self._sender.ask(Changed, ask.once("POST", ask.timer_path(timer_key, name, "run"), {}, idempotency_key))

    def records(self, *, timer_key: int | None = None, name: str | None = None, limit: int = 20) -> tuple[Record, ...]:
        """Show what happened to a timer.

        shape:   the newest first, at most 100
        errors:  NotFound  there is none
        """
        path = ask.timer_path(timer_key, name, "records")
        return (self._sender.ask(RecordsPage, ask.read(path, limit=limit))).records

    def explain(self, *, timer_key: int | None = None, name: str | None = None, at: Moment | None = None) -> Explained:
        """Say why a timer fired when it did, or why it did not, at a moment or until now.

        errors:  NotFound  there is none
        """
        return self._sender.ask(Explained, ask.read(ask.timer_path(timer_key, name, "explanation"), at=at))

    def wait_for_end(self, *, timer_key: int | None = None, name: str | None = None, within: Length) -> Record | None:
        """Wait until a timer has fired and, if it has a target, its delivery has ended; or it was cancelled or skipped.

        A name stands for the timer that has it when the wait begins.

        shape:   the record that ended it; None: it has not ended `within` that time
        errors:  NotFound  there is none
        """
        within_s = seconds_of(within)
        path = ask.timer_path(timer_key, name, "end")
        if name is not None:
            path = ask.timer_path((self.get(name=name)).timer_key, None, "end")
        asked = ask.read(path)
        answer = self._sender.ask_until(lambda answer: answer.status_code != NO_CONTENT, asked, within_s=within_s)
        return None if answer.status_code == NO_CONTENT else read_answer(Record, asked, answer.content)

    def preview(
        self, rule: str, *, zone: str = "UTC", count: int = 10, start: Moment | None = None
    ) -> tuple[Occurrence, ...]:
        """Show when a schedule will fire, as if it were scheduled at `start`, or now.

        errors:  Refused  no rule
        """
        query: dict[str, object] = {"rule": rule, "zone": zone, "count": count, "from": start}
        return (self._sender.ask(PreviewPage, ask.read("/v1/schedules/preview", **query))).occurrences

    def bulk(
        self, verb: str, *, reason: str | None = None, shift: Length | None = None, **chosen: Unpack[Chosen]
    ) -> Bulk:
        """Count all timers that one verb would change: cancel, pause, resume or shift; `commit` of the answer does it.

        What is not given leaves none out: without any of them, all timers of the tenant are meant.

        errors:  Refused    the verb does not take this
                 MoreMatch  more match than one request changes
        """
        path = f"{ask.TIMERS}/bulk/{ask.segment(verb)}"
        body: dict[str, object] = {"filter": chosen, "reason": reason, "shift": shift}
        asked = ask.act(path, body, is_repeatable=True, dry_run=True)
        return Bulk(self._sender, path, body, self._sender.ask(Counted, asked))

    def log(self, *, after: int = 0, follow: bool = False) -> Iterator[Record]:
        """Read what happened, from the record after a position on; 0 is the start.

        With `follow` it goes on for ever, as records come. After a connection that was lost it goes on behind the last
        record that it gave, so it leaves out none and gives none twice. Keep the `position` to go on after a restart.

        errors:  ApiError  no gateway has answered for `retry_for`
        """
        if follow:
            for record in self._follow(after):
                yield record
            return
        while True:
            page = self._sender.ask(LogPage, ask.read("/v1/log", after=after, limit=ask.PAGE))
            for record in page.records:
                yield record
            if page.next <= after:
                return
            after = page.next

    def dead_letters(self, *, target: str | None = None, limit: int = 100) -> tuple[DeadLetter, ...]:
        """Find deliveries that were given up.

        shape:   the newest first, at most 1,000
        """
        found: list[DeadLetter] = []
        after: str | None = None
        while True:  # if they are large, a page has fewer than were asked for
            asked = ask.read("/v1/dead-letters", target=target, limit=limit - len(found), after=after)
            page = self._sender.ask(DeadLettersPage, asked)
            found += page.dead_letters
            after = page.next
            if after is None or len(found) >= limit:
                return tuple(found)

    def redrive(
        self,
        timer_key: int | None = None,
        *,
        per_s: int | None = None,
        dry_run: bool = False,
        **chosen: Unpack[Letters],
    ) -> Acted:
        """Deliver one dead letter again, or all that are chosen, so many a second; it is not sent again by itself.

        errors:  NotFound  there is no such dead letter
        """
        return self._act_on_letters("redrive", timer_key, {"per_s": per_s, **chosen}, dry_run=dry_run)

    def discard(
        self,
        timer_key: int | None = None,
        *,
        reason: str | None = None,
        dry_run: bool = False,
        **chosen: Unpack[Letters],
    ) -> Acted:
        """Discard one dead letter for good, or all that are chosen; it is not sent again by itself.

        errors:  NotFound  there is no such dead letter
        """
        return self._act_on_letters("discard", timer_key, {"reason": reason, **chosen}, dry_run=dry_run)

    def jobs(self) -> tuple[JobState, ...]:
        """List all jobs, by name; the key must be for all tenants."""
        return (self._sender.ask(JobsPage, ask.read("/v1/jobs"))).jobs

    def run_job(self, name: str, *, config: Any = None) -> int:
        """Start a job now, and return the key of the start; a configuration is for this run alone.

        It is not sent again after an answer that was lost, or the job would run twice.

        errors:  NotFound  there is no such job
        """
        asked = ask.act(f"/v1/jobs/{ask.segment(name)}/run", {"config": config}, is_repeatable=False)
        return (self._sender.ask(Started, asked)).timer_key

    def _settle(self, part: Part) -> ApiError | None:
        """Send the lines of a part until each has an outcome; return why that failed, if so."""
        tries = self._sender.tries(is_repeatable=True)
        while part.waiting:
            try:
                answer = self._sender.send_once(part.asked)
                error = part.take(answer.content.splitlines())
            except ApiError as failed:
                part.lose(failed)
                error = failed
            if error is None:
                return None
            if not part.waiting:
                return None if error.problem.may_pass else error
            try:
                tries.again_after(error)
            except ApiError as failed:
                part.give_up(failed)
                return failed
        return None

    def _follow(self, after: int) -> Iterator[Record]:
        tries = self._sender.tries(is_repeatable=True)
        while True:
            asked = ask.read("/v1/log/stream", after=after)
            lasting_from_s = inf
            try:
                with self._sender.stream(asked) as events:
                    lasting_from_s = monotonic() + LASTING_S
                    for event in events:
                        if not event.data:
                            continue  # it only says where the log is
                        record = read_answer(Record, asked, event.data.encode())
                        if record.position > after:
                            after, lasting_from_s = record.position, 0.0
                            yield record
                raise no_answer(asked, self._place, EOFError("the stream has ended"), was_sent=False)
            except ApiError as error:
                if monotonic() >= lasting_from_s:
                    tries = self._sender.tries(is_repeatable=True)
                tries.again_after(error)

    def _act_on_letters(self, verb: str, timer_key: int | None, body: dict[str, object], *, dry_run: bool) -> Acted:
        path = "/v1/dead-letters"
        if timer_key is None:
            asked = ask.act(f"{path}/{verb}", body, is_repeatable=dry_run, dry_run=dry_run)
        else:
            if dry_run or any(value is not None for value in body.values()):
                raise TypeError(f"{verb} takes a timer_key alone, or what chooses dead letters: give one of them")
            asked = ask.act(f"{path}/{timer_key:d}/{verb}", {}, is_repeatable=False)
        return self._sender.ask(Acted, asked)

# Written by `make docs` from async_client.py: change that, and write this anew.
"""Schedule, change and find timers through a gateway: what its reference has as routes are methods here."""

from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Self, Unpack

from shardclock.api.answers import (
    Changed,
    Explained,
    Occurrence,
    PreviewPage,
    Record,
    RecordsPage,
    Scheduled,
    TimersPage,
    TimerState,
)
from shardclock.api.fields import Destination, Length, Moment, New, Put
from shardclock.durations import seconds_of
from shardclock.http import asked as ask
from shardclock.http.asked import Chosen
from shardclock.http.place import place_of
from shardclock.http.reading import read_answer
from shardclock.http.sync_log import Log
from shardclock.http.sync_many import Many
from shardclock.http.sync_operating import Operating
from shardclock.http.sync_processes import Processes
from shardclock.http.sync_sending import Sender
from shardclock.http.sync_tasks import Tasks


class Client(Many, Log, Operating):
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
                 Conflict  an instance of a process waits for it
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
        return self._sender.wait_for(Record, asked, within_s=within_s)

    def preview(
        self, rule: str, *, zone: str = "UTC", count: int = 10, start: Moment | None = None
    ) -> tuple[Occurrence, ...]:
        """Show when a schedule will fire, as if it were scheduled at `start`, or now.

        errors:  Refused  no rule
        """
        query: dict[str, object] = {"rule": rule, "zone": zone, "count": count, "from": start}
        return (self._sender.ask(PreviewPage, ask.read("/v1/schedules/preview", **query))).occurrences

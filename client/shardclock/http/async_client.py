"""Schedule, change and find timers through a gateway; the client has a method for each route of the reference."""

from collections.abc import AsyncIterator
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
    Schedule,
    Scheduled,
    SchedulesPage,
    TimersPage,
    TimerState,
)
from shardclock.api.fields import Destination, Length, Moment, New, Put
from shardclock.durations import seconds_of
from shardclock.http import requests as ask
from shardclock.http.address import address_of
from shardclock.http.async_log import AsyncLog
from shardclock.http.async_many import AsyncMany
from shardclock.http.async_operating import AsyncOperating
from shardclock.http.async_processes import AsyncProcesses
from shardclock.http.async_sending import AsyncSender
from shardclock.http.async_tasks import AsyncTasks
from shardclock.http.reading import read_answer
from shardclock.http.requests import TimerQuery


class AsyncClient(AsyncMany, AsyncLog, AsyncOperating):
    """A client of one gateway; concurrent tasks may share a client.

    The client retries an unanswered request until the time `retry_for` has passed since the first failure, unless the
    request could take effect twice. The attributes `processes` and `tasks` have the methods for processes and their
    tasks.

    errors:  ApiError    from each method: nothing was done; the message has the gateway's reason. Its subclass
                         `NoAnswer`: no gateway answered in time.
             ValueError  the URL or the key can't be used.
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
        self._address = address_of(url, key, tenant, insecure=insecure)
        timeout_s, retry_for_s = seconds_of(timeout), seconds_of(retry_for)
        self._sender = AsyncSender(self._address, timeout_s=timeout_s, retry_for_s=retry_for_s)
        self.processes = AsyncProcesses(self._sender)
        self.tasks = AsyncTasks(self._sender)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._sender.aclose()

    async def schedule(
        self, *, idempotency_key: str | None = None, wait: Length | None = None, **timer: Unpack[New]
    ) -> Scheduled:
        """Schedule a timer: give exactly one of `delay`, `due_date` and `schedule`.

        With `wait`, at most five minutes, the call returns when the timer has ended or the time is over. The result's
        `end` is the record of the timer's end, or None if the time is over.

        errors:  NameTaken     a pending timer has the given name, and `on_conflict` is not given.
                 Refused       a field is invalid.
                 OtherRequest  the idempotency key came with other fields within a day; without a key, each call uses a
                               new key.
        """
        request = ask.once("POST", ask.TIMERS, timer, idempotency_key).with_wait(wait)
        return await self._sender.ask(Scheduled, request)

    async def put(
        self, name: str, *, idempotency_key: str | None = None, wait: Length | None = None, **timer: Unpack[Put]
    ) -> Scheduled:
        """Create the timer with a name, or replace it.

        errors:  as in `schedule`, without NameTaken
        """
        request = ask.once("PUT", ask.timer_path(None, name), timer, idempotency_key).with_wait(wait)
        return await self._sender.ask(Scheduled, request)

    async def get(self, *, timer_key: int | None = None, name: str | None = None) -> TimerState:
        """Find a timer, pending or ended; its `etag` is for `move`.

        errors:  NotFound  the timer does not exist
        """
        request = ask.read(ask.timer_path(timer_key, name))
        answer = await self._sender.send(request)
        return read_answer(TimerState, request, answer.content).model_copy(update={"etag": answer.headers.get("etag")})

    async def list(
        self,
        *,
        state: str = "pending",
        name: str | None = None,
        order_by: str | None = None,
        **chosen: Unpack[TimerQuery],
    ) -> AsyncIterator[TimerState]:
        """Find timers: pending timers by due date, paused timers by key, ended timers newest first.

        With `order_by="change"`, the last changed pending or paused timers come first. With `name_contains`, the order
        is by name.

        shape:   all matching timers, read page by page; `state` is pending, paused, triggered, canceled, skipped or
                 ended
        """
        after: str | None = None
        while True:
            request = ask.read_page(
                ask.TIMERS, chosen, state=state, name=name, order_by=order_by, limit=ask.PAGE, after=after
            )
            page = await self._sender.ask(TimersPage, request)
            for timer in page.timers:
                yield timer
            if page.next is None:
                return
            after = page.next

    async def list_schedules(
        self, *, state: str = "pending", order_by: str | None = None, **chosen: Unpack[TimerQuery]
    ) -> AsyncIterator[Schedule]:
        """Find pending or paused schedules, each with its last firings, in the order of `list`.

        shape:   all matching schedules, read page by page; `state` is pending or paused
        """
        after: str | None = None
        while True:
            request = ask.read_page("/v1/schedules", chosen, state=state, order_by=order_by, after=after)
            page = await self._sender.ask(SchedulesPage, request)
            for schedule in page.schedules:
                yield schedule
            if page.next is None:
                return
            after = page.next

    async def get_schedule(self, name: str) -> Schedule:
        """Find a pending or paused schedule with its last firings.

        errors:  NotFound  the schedule does not exist
        """
        return await self._sender.ask(Schedule, ask.read(f"/v1/schedules/by-name/{ask.segment(name)}"))

    async def move(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        **to: Unpack[Destination],
    ) -> Changed:
        """Move a timer: give exactly one of `due_date`, `delay` (from now), `shift` and `schedule` (a new rule).

        errors:  Stale     the timer was changed: its `etag` differs from `if_match`.
                 TooLate   the timer has ended.
                 NotFound  the timer does not exist.
        """
        request = ask.once("PATCH", ask.timer_path(timer_key, name), to, idempotency_key).with_etag(if_match)
        return await self._sender.ask(Changed, request)

    async def cancel(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Changed:
        """Cancel a pending timer; the timer's record in the log holds the reason.

        errors:  TooLate   the timer has ended.
                 NotFound  the timer does not exist.
                 Conflict  an instance of a process waits for the timer.
        """
        path = ask.timer_path(timer_key, name, "cancel")
        return await self._sender.ask(Changed, ask.once("POST", path, {"reason": reason}, idempotency_key))

    async def pause(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        reason: str | None = None,
        until: Moment | Length | None = None,
        missed: str | None = None,
        idempotency_key: str | None = None,
    ) -> Changed:
        """Pause a timer until a resume, a moment, or the end of a duration.

        `missed` is the rule for a schedule's occurrences during the pause, as in `resume`. A second pause of a paused
        timer changes the end of the pause.

        errors:  as in `cancel`, and Refused for an end that is not in the future, or an unknown rule
        """
        path = ask.timer_path(timer_key, name, "pause")
        fields = {"reason": reason, "until": until, "missed": missed}
        return await self._sender.ask(Changed, ask.once("POST", path, fields, idempotency_key))

    async def resume(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        missed: str | None = None,
        idempotency_key: str | None = None,
    ) -> Changed:
        """Resume a paused timer; if its due date passed during the pause, the timer is due immediately.

        `missed` is the rule for the occurrences that a schedule missed during the pause: `skip`, `fire_once`,
        `fire_all` or `policy`. The default `policy` means the schedule's own rule.

        errors:  as in `cancel`, and Refused for an unknown rule
        """
        path = ask.timer_path(timer_key, name, "resume")
        return await self._sender.ask(Changed, ask.once("POST", path, {"missed": missed}, idempotency_key))

    async def run(
        self, *, timer_key: int | None = None, name: str | None = None, idempotency_key: str | None = None
    ) -> Changed:
        """Make a pending timer due now; a schedule fires once more, and its other dates stay unchanged.

        errors:  as in `cancel`
        """
        return await self._sender.ask(
            Changed, ask.once("POST", ask.timer_path(timer_key, name, "run"), {}, idempotency_key)
        )

    async def records(
        self, *, timer_key: int | None = None, name: str | None = None, limit: int = 20
    ) -> tuple[Record, ...]:
        """List the records of a timer.

        shape:   the newest first, at most 100
        errors:  NotFound  the timer does not exist
        """
        path = ask.timer_path(timer_key, name, "records")
        return (await self._sender.ask(RecordsPage, ask.read(path, limit=limit))).records

    async def explain(
        self, *, timer_key: int | None = None, name: str | None = None, at: Moment | None = None
    ) -> Explained:
        """Explain why a timer fired or did not fire at the moment `at`; without `at`: until now.

        errors:  NotFound  the timer does not exist
        """
        return await self._sender.ask(Explained, ask.read(ask.timer_path(timer_key, name, "explanation"), at=at))

    async def wait_for_end(
        self, *, timer_key: int | None = None, name: str | None = None, within: Length
    ) -> Record | None:
        """Wait until a timer has ended: it was cancelled or skipped, or it fired and its delivery (if any) ended.

        If `name` is given, the call waits for the timer that has this name at the beginning of the call.

        shape:   the record of the timer's end; None: the timer has not ended within the given time
        errors:  NotFound  the timer does not exist
        """
        within_s = seconds_of(within)
        path = ask.timer_path(timer_key, name, "end")
        if name is not None:
            path = ask.timer_path((await self.get(name=name)).timer_key, None, "end")
        request = ask.read(path)
        return await self._sender.wait_for(Record, request, within_s=within_s)

    async def preview(
        self, rule: str, *, zone: str = "UTC", count: int = 10, start: Moment | None = None
    ) -> tuple[Occurrence, ...]:
        """Show the next dates of a schedule, as if a timer were scheduled at `start`, or now.

        errors:  Refused  the rule is invalid
        """
        query: dict[str, object] = {"rule": rule, "zone": zone, "count": count, "from": start}
        return (await self._sender.ask(PreviewPage, ask.read("/v1/schedules/preview", **query))).occurrences

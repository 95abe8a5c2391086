"""Schedule and change many timers through a gateway."""

from collections.abc import AsyncIterator, Iterable
from typing import Unpack

from shardclock.api.answers import BulkChanged, Line, TimersCounted
from shardclock.api.errors import ApiError
from shardclock.api.fields import Length, Moment, New, NewLine
from shardclock.http import requests as ask
from shardclock.http.async_sending import AsyncSender
from shardclock.http.parts import RequestPart, parts_of
from shardclock.http.reading import read_answer
from shardclock.http.requests import BulkQuery


class AsyncBulk:
    """A change of many timers. The gateway has counted the timers, and `commit` changes them."""

    def __init__(self, sender: AsyncSender, path: str, body: dict[str, object], counted: TimersCounted) -> None:
        self._sender = sender
        self._path = path
        self._body = body
        self._counted = counted

    def __repr__(self) -> str:
        return f"<{self._path} matches {self.matched} timers>"

    @property
    def matched(self) -> int:
        """The number of timers that `commit` would change."""
        return self._counted.matched

    @property
    def left_out(self) -> int:
        """The number of matching timers that a cancel leaves out, because process instances wait for them."""
        return self._counted.left_out

    async def commit(self) -> BulkChanged:
        """Change the counted timers, within ten minutes of the count.

        shape:   the client never retries the request, because a retry could change timers that were not counted
        errors:  MoreMatch  more timers match now than were counted: no timer was changed.
                 Refused    the count is too old.
        """
        request = ask.act(self._path, self._body, is_repeatable=False, token=self._counted.token)
        return read_answer(BulkChanged, request, (await self._sender.send(request)).content)


class AsyncMany:
    """The client's methods for many timers."""

    _sender: AsyncSender

    async def schedule_many(self, timers: Iterable[New | NewLine], *, part_lines: int = 5_000) -> AsyncIterator[Line]:
        """Schedule many timers, at most 10,000 with one request, and yield the outcome of each timer.

        After a lost answer, the client sends only those timers again that can't be stored twice. Such a timer has an
        `idempotency_key` (valid for a day), or a name and `on_conflict="ignore"` (valid while the first timer is
        pending). Other timers get the outcome `unknown`.

        shape:   a line for each timer, in the order of the timers
        errors:  ApiError    no gateway answered in time, or the gateway refuses all lines; raised after the lines of
                             the failed request.
                 ValueError  a timer has no form in JSON, or `part_lines` is out of its bounds.
                 TypeError   `timers` is not an iterable, or one of them is not a mapping.
        """
        for part in parts_of(timers, lines_max=part_lines):
            failure = await self._settle(part)
            for line in part.lines():
                yield line
            if failure is not None:
                raise failure

    async def bulk(
        self,
        verb: str,
        *,
        state: str | None = None,
        reason: str | None = None,
        shift: Length | None = None,
        until: Moment | Length | None = None,
        missed: str | None = None,
        **chosen: Unpack[BulkQuery],
    ) -> AsyncBulk:
        """Count the timers that a verb would change: cancel, pause, resume or shift.

        Call `commit` on the result to change these timers.

        Without filters, all timers of the tenant are selected. `state` is pending or paused, `timer_keys` has up to
        1,000 keys. `until` is the end of a pause. `missed` is the rule for a schedule's occurrences during the pause,
        for resume and for pause with `until`.

        errors:  Refused    a parameter does not belong to the verb.
                 MoreMatch  more timers match than one request can change.
        """
        path = f"{ask.TIMERS}/bulk/{ask.segment(verb)}"
        body: dict[str, object] = {
            "filter": {**chosen, "state": state},
            "reason": reason,
            "shift": shift,
            "until": until,
            "missed": missed,
        }
        request = ask.act(path, body, is_repeatable=True, dry_run=True)
        return AsyncBulk(self._sender, path, body, await self._sender.ask(TimersCounted, request))

    async def _settle(self, part: RequestPart) -> ApiError | None:
        """Send the lines of a part until each line has an outcome; return the error of a failure without retry."""
        tries = self._sender.tries(is_repeatable=True)
        while part.waiting:
            try:
                answer = await self._sender.send_once(part.request)
                error = part.take(answer.content.splitlines())
            except ApiError as failed:
                part.lose(failed)
                error = failed
            if error is None:
                return None
            if not part.waiting:
                return None if error.problem.may_pass else error
            try:
                await tries.again_after(error)
            except ApiError as failed:
                part.give_up(failed)
                return failed
        return None

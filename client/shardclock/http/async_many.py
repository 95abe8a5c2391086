"""Schedule and change many timers through a gateway."""

from collections.abc import AsyncIterator, Iterable
from typing import Unpack

from shardclock.api.answers import BulkChanged, Counted, Line
from shardclock.api.errors import ApiError
from shardclock.api.fields import Length, New, NewLine
from shardclock.http import asked as ask
from shardclock.http.asked import Chosen
from shardclock.http.async_sending import AsyncSender
from shardclock.http.parts import Part, parts_of
from shardclock.http.reading import read_answer


class AsyncBulk:
    """Hold one verb for many timers, which were counted; nothing is changed before `commit`."""

    def __init__(self, sender: AsyncSender, path: str, body: dict[str, object], counted: Counted) -> None:
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

    @property
    def left_out(self) -> int:
        """Return how many others a cancel spares: they belong to instances of processes, which wait for them."""
        return self._counted.left_out

    async def commit(self) -> BulkChanged:
        """Change them, within ten minutes of the count. If more timers match than were counted, none is changed.

        shape:   it is sent once: sent again, it would change timers that match only since then
        errors:  MoreMatch  more timers match than were counted: none was changed
                 Refused    the count is too old
        """
        asked = ask.act(self._path, self._body, is_repeatable=False, token=self._counted.token)
        return read_answer(BulkChanged, asked, (await self._sender.send(asked)).content)


class AsyncMany:
    """What a client does to many timers."""

    _sender: AsyncSender

    async def schedule_many(self, timers: Iterable[New | NewLine], *, part_lines: int = 5_000) -> AsyncIterator[Line]:
        """Schedule many timers, at most 10,000 with one request, and say of each what became of it.

        If an answer is lost, those timers are sent again that have an `idempotency_key`, which protects for a day, or a
        name and `on_conflict="ignore"`, which protects for as long as the first one is pending. The outcome of the
        others is `unknown`, and the next ones go on.

        shape:   a line for each timer, in their order
        errors:  ApiError    after the lines of the part that failed: no gateway answered in time, or it refuses all
                 ValueError  a timer has no form in JSON, or `part_lines` is out of its bounds
                 TypeError   `timers` is no iterable, or one of them is no mapping
        """
        for part in parts_of(timers, lines_max=part_lines):
            failure = await self._settle(part)
            for line in part.lines():
                yield line
            if failure is not None:
                raise failure

    async def bulk(
        self, verb: str, *, reason: str | None = None, shift: Length | None = None, **chosen: Unpack[Chosen]
    ) -> AsyncBulk:
        """Count all timers that one verb would change: cancel, pause, resume or shift; `commit` of the answer does it.

        What is not given leaves none out: without any of them, all timers of the tenant are meant.

        errors:  Refused    the verb does not take this
                 MoreMatch  more match than one request changes
        """
        path = f"{ask.TIMERS}/bulk/{ask.segment(verb)}"
        body: dict[str, object] = {"filter": chosen, "reason": reason, "shift": shift}
        asked = ask.act(path, body, is_repeatable=True, dry_run=True)
        return AsyncBulk(self._sender, path, body, await self._sender.ask(Counted, asked))

    async def _settle(self, part: Part) -> ApiError | None:
        """Send the lines of a part until each has an outcome; return why that failed, if so."""
        tries = self._sender.tries(is_repeatable=True)
        while part.waiting:
            try:
                answer = await self._sender.send_once(part.asked)
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

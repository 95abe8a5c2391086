"""Read the log through a gateway, follow it, and do the work of a consumer group."""

from collections.abc import AsyncIterator
from contextlib import suppress
from http import HTTPStatus
from math import inf
from time import monotonic

from shardclock.api.answers import LeasePage, LogPage, PlacePage, Record
from shardclock.api.errors import ApiError, Conflict
from shardclock.api.fields import Length
from shardclock.durations import seconds_of
from shardclock.http import asked as ask
from shardclock.http.async_sending import AsyncSender
from shardclock.http.place import Place
from shardclock.http.problems import no_answer
from shardclock.http.reading import read_answer

CONSUMERS = "/v1/consumers"
WAIT = "PT30S"  # for the next records of a group
LASTING_S = 5.0  # a stream that was there for so long, or gave a record, is no failure in a row of failures


class AsyncLog:
    """How a client reads what happened."""

    _sender: AsyncSender
    _place: Place

    async def log(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[Record]:
        """Read what happened, from the record after a position on; 0 is the start.

        With `follow` it goes on for ever, as records come. After a connection that was lost it goes on behind the last
        record that it gave, so it leaves out none and gives none twice. Keep the `position` to go on after a restart.

        errors:  ApiError  no gateway has answered for `retry_for`
        """
        if follow:
            async for record in self._follow(after):
                yield record
            return
        while True:
            page = await self._sender.ask(LogPage, ask.read("/v1/log", after=after, limit=ask.PAGE))
            for record in page.records:
                yield record
            if page.next <= after:
                return
            after = page.next

    async def consume(
        self, group: str, *, limit: int = 100, lease: Length = "PT30S", partitions: int | None = None
    ) -> AsyncIterator[Record]:
        """Work as a member of a consumer group, for ever: each record at least once, in order within its partition.

        A record is done when the next one is asked for. Who leaves the loop, also by an error, gives back what is not
        done. The work on one record has as long as the `lease`: after that another member may get it, too. A new group
        begins at the start of the log, with so many `partitions`, or one. The key must be for all tenants.

        shape:   `limit` is how many records are leased at a time
        errors:  Conflict  the group has another number of partitions
                 ApiError  no gateway has answered for `retry_for`
        """
        body: dict[str, object] = {"limit": limit, "lease": lease, "partitions": partitions}
        asked = ask.act(f"{CONSUMERS}/{ask.segment(group)}/lease", body, is_repeatable=True).waiting(WAIT)
        while True:
            answer = await self._sender.send(asked)
            if answer.status_code == HTTPStatus.NO_CONTENT:
                continue
            leased = read_answer(LeasePage, asked, answer.content)
            token, done, kept_s, third_s = leased.token, 0, monotonic(), seconds_of(lease) / 3
            try:
                for record in leased.records:
                    yield record
                    done = record.position
                    if monotonic() - kept_s > third_s:
                        place = await self._acknowledge(group, token, done, lease)
                        token, kept_s = place.token or token, monotonic()
            except Conflict:
                continue  # another member has the others
            finally:
                # Without an answer, or once the client is closed, the lease runs out by itself.
                with suppress(ApiError, RuntimeError):
                    await self._acknowledge(group, token, done, None)

    async def _acknowledge(self, group: str, token: str, position: int, lease: Length | None) -> PlacePage:
        body: dict[str, object] = {"token": token, "position": position, "lease": lease}
        asked = ask.act(f"{CONSUMERS}/{ask.segment(group)}/acknowledge", body, is_repeatable=True)
        return await self._sender.ask(PlacePage, asked)

    async def _follow(self, after: int) -> AsyncIterator[Record]:
        tries = self._sender.tries(is_repeatable=True)
        while True:
            asked = ask.read("/v1/log/stream", after=after)
            lasting_from_s = inf
            try:
                async with self._sender.stream(asked) as events:
                    lasting_from_s = monotonic() + LASTING_S
                    async for event in events:
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
                await tries.again_after(error)

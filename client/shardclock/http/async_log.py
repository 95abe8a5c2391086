"""Read the log through a gateway, and follow it."""

from collections.abc import AsyncIterator
from math import inf
from time import monotonic

from shardclock.api.answers import LogPage, Record
from shardclock.api.errors import ApiError
from shardclock.http import asked as ask
from shardclock.http.async_sending import AsyncSender
from shardclock.http.place import Place
from shardclock.http.problems import no_answer
from shardclock.http.reading import read_answer

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

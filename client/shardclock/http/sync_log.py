# `make docs` writes this file from async_log.py: change that file, and run `make docs`.
"""Read or follow the log through a gateway, and work as a member of a consumer group."""

from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from math import inf
from time import monotonic

from shardclock.api.answers import LeasePage, LogRecordsPage, PositionPage, Record
from shardclock.api.errors import ApiError, Conflict
from shardclock.api.fields import Length
from shardclock.durations import seconds_of
from shardclock.http import requests as ask
from shardclock.http.address import GatewayAddress
from shardclock.http.problems import no_answer
from shardclock.http.reading import read_answer
from shardclock.http.sync_sending import Sender

CONSUMERS = "/v1/consumers"
WAIT = "PT30S"  # The longest time that a request waits for a group's next records.
LASTING_S = 5.0  # A stream counts as successful after this time, or after its first record.


class Log:
    """The client's methods for the log."""

    _sender: Sender
    _address: GatewayAddress

    def log(self, *, after: int = 0, follow: bool = False) -> Iterator[Record]:
        """Read the records after a position; 0 is the start.

        With `follow` the method yields new records for ever. After a lost connection the stream continues after the
        last yielded record. A program that stores the `position` can continue after a restart.

        errors:  ApiError  no gateway has answered for `retry_for`
        """
        if follow:
            for record in self._follow(after):
                yield record
            return
        while True:
            page = self._sender.ask(LogRecordsPage, ask.read("/v1/log", after=after, limit=ask.PAGE))
            for record in page.records:
                yield record
            if page.next <= after:
                return
            after = page.next

    def consume(
        self, group: str, *, limit: int = 100, lease: Length = "PT30S", partitions: int | None = None
    ) -> Iterator[Record]:
        """Yield each record at least once, in the order of its partition, as a member of a consumer group, for ever.

        A record is done when the caller requests the next record. When the loop or the caller ends, the client releases
        the unfinished records. Finish the work on a record within the `lease`: after the lease, another member may get
        the record. A new group begins at the start of the log, with `partitions` partitions, one by default. The API
        key must be for all tenants.

        shape:   `limit` is the number of records in one lease
        errors:  Conflict  the group exists, and its number of partitions is not `partitions`.
                 ApiError  no gateway has answered for `retry_for`.
        """
        body: dict[str, object] = {"limit": limit, "lease": lease, "partitions": partitions}
        request = ask.act(f"{CONSUMERS}/{ask.segment(group)}/lease", body, is_repeatable=True).with_wait(WAIT)
        while True:
            answer = self._sender.send(request)
            if answer.status_code == HTTPStatus.NO_CONTENT:
                continue
            leased = read_answer(LeasePage, request, answer.content)
            token, done, kept_s, third_s = leased.token, 0, monotonic(), seconds_of(lease) / 3
            try:
                for record in leased.records:
                    yield record
                    done = record.position
                    if monotonic() - kept_s > third_s:
                        acknowledged = self._acknowledge(group, token, done, lease)
                        token, kept_s = acknowledged.token or token, monotonic()
            except Conflict:
                continue  # another member has the remaining records
            finally:
                # If this request fails, the lease expires later.
                with suppress(ApiError, RuntimeError):
                    self._acknowledge(group, token, done, None)

    def _acknowledge(self, group: str, token: str, position: int, lease: Length | None) -> PositionPage:
        body: dict[str, object] = {"token": token, "position": position, "lease": lease}
        request = ask.act(f"{CONSUMERS}/{ask.segment(group)}/acknowledge", body, is_repeatable=True)
        return self._sender.ask(PositionPage, request)

    def _follow(self, after: int) -> Iterator[Record]:
        tries = self._sender.tries(is_repeatable=True)
        while True:
            request = ask.read("/v1/log/stream", after=after)
            lasting_from_s = inf
            try:
                with self._sender.stream(request) as events:
                    lasting_from_s = monotonic() + LASTING_S
                    for event in events:
                        if not event.data:
                            continue  # the event contains no records, only a position of the log
                        record = read_answer(Record, request, event.data.encode())
                        if record.position > after:
                            after, lasting_from_s = record.position, 0.0
                            yield record
                raise no_answer(request, self._address, EOFError("the stream has ended"), was_sent=False)
            except ApiError as error:
                if monotonic() >= lasting_from_s:
                    tries = self._sender.tries(is_repeatable=True)
                tries.again_after(error)

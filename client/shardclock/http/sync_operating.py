# `make docs` writes this file from async_operating.py: change that file, and run `make docs`.
"""Manage dead letters, jobs and bulk operations through a gateway."""

from collections.abc import Collection
from typing import Any, Unpack

from shardclock.api.answers import (
    DeadLetter,
    DeadLetterGroups,
    DeadLettersChanged,
    DeadLettersPage,
    EventSubscription,
    EventSubscriptionChanged,
    EventSubscriptionsPage,
)
from shardclock.api.fields import Length
from shardclock.api.jobs import JobRun, JobsPage, JobState, Started
from shardclock.api.operations import Operation, OperationsPage
from shardclock.durations import seconds_of
from shardclock.http import requests as ask
from shardclock.http.requests import DeadLetterQuery
from shardclock.http.sync_sending import Sender


class Operating:
    """The client's methods for operators."""

    _sender: Sender

    def dead_letters(
        self, *, target: str | None = None, reason_line: str | None = None, limit: int = 100
    ) -> tuple[DeadLetter, ...]:
        """Find deliveries that were given up.

        shape:   the newest first, at most 1,000
        """
        found: list[DeadLetter] = []
        after: str | None = None
        while True:  # a page of large dead letters has fewer than `limit` dead letters
            request = ask.read(
                "/v1/dead-letters", target=target, reason_line=reason_line, limit=limit - len(found), after=after
            )
            page = self._sender.ask(DeadLettersPage, request)
            found += page.dead_letters
            after = page.next
            if after is None or len(found) >= limit:
                return tuple(found)

    def dead_letter_groups(self, *, target: str | None = None, all_tenants: bool = False) -> DeadLetterGroups:
        """Group the newest 10,000 dead letters by target and by the first line of the reason.

        With `all_tenants`, a group has the dead letters of all tenants; this needs a key for all tenants.

        shape:   the largest group first, at most 50; `dead_letters`, `redrive` and `discard` accept a group's
                 `reason_line` as a filter
        """
        request = ask.read("/v1/dead-letters/groups", target=target, all_tenants=all_tenants)
        return self._sender.ask(DeadLetterGroups, request)

    def redrive(
        self,
        timer_key: int | None = None,
        *,
        per_s: int | None = None,
        enable: bool = False,
        every: bool = False,
        dry_run: bool = False,
        **chosen: Unpack[DeadLetterQuery],
    ) -> DeadLettersChanged:
        """Deliver one or all matching dead letters again, `per_s` a second; the client never retries the request.

        With `enable`, the server first enables disabled endpoints; otherwise the dead letters of these endpoints are
        not delivered.

        errors:  NotFound  the timer has no dead letter.
                 Conflict  the endpoint is disabled or was removed.
                 Refused   no filter is given, and `every` is False.
        """
        body = {"per_s": per_s, "every": every or None, **chosen}
        return self._change_letters("redrive", timer_key, body, {"enable": enable or None}, dry_run=dry_run)

    def discard(
        self,
        timer_key: int | None = None,
        *,
        reason: str | None = None,
        every: bool = False,
        dry_run: bool = False,
        **chosen: Unpack[DeadLetterQuery],
    ) -> DeadLettersChanged:
        """Discard one dead letter or all matching dead letters permanently; the client never retries the request.

        errors:  NotFound  the timer has no dead letter.
                 Refused   no filter is given, and `every` is False.
        """
        body = {"reason": reason, "every": every or None, **chosen}
        return self._change_letters("discard", timer_key, body, {}, dry_run=dry_run)

    def operations(
        self, *, verb: str | None = None, actor: str | None = None, state: str | None = None, limit: int = 100
    ) -> tuple[Operation, ...]:
        """List bulk operations.

        shape:   the newest first, at most 1,000
        """
        request = ask.read("/v1/operations", verb=verb, actor=actor, state=state, limit=limit)
        return (self._sender.ask(OperationsPage, request)).operations

    def operation(self, operation_id: int) -> Operation:
        """Find a bulk operation, with its progress.

        errors:  NotFound  there is no such operation
        """
        return self._sender.ask(Operation, ask.read(f"/v1/operations/{ask.number('operation_id', operation_id)}"))

    def cancel_operation(self, operation_id: int) -> Operation:
        """End a bulk operation after its current page; the changes of earlier pages are kept.

        errors:  NotFound  there is no such operation.
                 TooLate   the operation has ended.
        """
        path = f"/v1/operations/{ask.number('operation_id', operation_id)}/cancel"
        return self._sender.ask(Operation, ask.act(path, {}, is_repeatable=False))

    def event_subscriptions(self) -> tuple[EventSubscription, ...]:
        """List the endpoints that get events for operators, in the order of their names."""
        return (self._sender.ask(EventSubscriptionsPage, ask.read("/v1/notify"))).subscriptions

    def subscribe(
        self, endpoint: str, kinds: Collection[str], *, failures_min: int = 3, text_only: bool = False
    ) -> EventSubscriptionChanged:
        """Subscribe an endpoint to these kinds of events; they replace its earlier kinds.

        errors:  NotFound  there is no such endpoint.
                 Refused   a kind is unknown.
        """
        body = {"kinds": list(kinds), "failures_min": failures_min, "text_only": text_only}
        request = ask.change("PUT", f"/v1/notify/{ask.segment(endpoint)}", body)
        return self._sender.ask(EventSubscriptionChanged, request)

    def unsubscribe(self, endpoint: str) -> EventSubscriptionChanged:
        """Send no more events to an endpoint; the endpoint is not removed.

        errors:  NotFound  the endpoint gets no events
        """
        request = ask.change("DELETE", f"/v1/notify/{ask.segment(endpoint)}")
        return self._sender.ask(EventSubscriptionChanged, request)

    def jobs(self) -> tuple[JobState, ...]:
        """List all jobs in the order of their names; the API key must be for all tenants."""
        return (self._sender.ask(JobsPage, ask.read("/v1/jobs"))).jobs

    def wait_for_run(self, name: str, timer_key: int, *, within: Length) -> JobRun | None:
        """Wait until a requested start of a job has ended; `timer_key` is the result of `run_job`.

        shape:   the last run of the start; None: the start is not over within the given time
        errors:  NotFound  the start does not exist, or was dropped before it ran
        """
        request = ask.read(f"/v1/jobs/{ask.segment(name)}/runs/{ask.number('timer_key', timer_key)}")
        within_s = seconds_of(within)
        return self._sender.wait_for(JobRun, request, within_s=within_s)

    def run_job(self, name: str, *, config: Any = None) -> int:
        """Start a job now, and return the key of the start; `config` applies to this start only.

        The request is not retried after a lost answer, because the job could run twice.

        errors:  NotFound  no job has this name
        """
        request = ask.act(f"/v1/jobs/{ask.segment(name)}/run", {"config": config}, is_repeatable=False)
        return (self._sender.ask(Started, request)).timer_key

    def _change_letters(
        self, verb: str, timer_key: int | None, body: dict[str, object], how: dict[str, object], *, dry_run: bool
    ) -> DeadLettersChanged:
        path = "/v1/dead-letters"
        if timer_key is None:
            request = ask.act(f"{path}/{verb}", body | how, is_repeatable=dry_run, dry_run=dry_run)
        else:
            if dry_run or any(value is not None for value in body.values()):
                raise TypeError(f"{verb} takes either a timer_key or filters of dead letters: give one of them")
            request = ask.act(f"{path}/{ask.number('timer_key', timer_key)}/{verb}", how, is_repeatable=False)
        return self._sender.ask(DeadLettersChanged, request)

"""Find the stored responses of idempotent requests, and create the responses to store."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus

from shardclock.api.codes import IN_FLIGHT, OTHER_REQUEST
from shardclock_server.sql.clients.outcomes import Refused, Scheduled, Untried
from shardclock_server.sql.clients.planned import PlannedTimer
from shardclock_server.sql.idempotency.requests import (
    IdempotentRequest,
    OtherParameters,
    RequestInProgress,
    Stored,
    begin_requests,
)
from shardclock_server.sql.session import Connection


async def replayed_outcomes(connection: Connection, planned: Sequence[PlannedTimer]) -> dict[int, Scheduled | Refused]:
    """Find the timers that must not be written, because their requests already have an outcome."""
    asking = [(plan.key, plan.request) for plan in planned if plan.request is not None]
    if not asking:
        return {}
    found = await begin_requests(connection, [request for _, request in asking])
    pairs = zip(asking, found, strict=True)
    return {key: _outcome_of(request, before) for (key, request), before in pairs if before is not None}


def _outcome_of(
    request: IdempotentRequest, before: Stored | RequestInProgress | OtherParameters
) -> Scheduled | Refused:
    match before:
        case Stored():
            answer = json.loads(before.body)
            due_date = datetime.fromisoformat(answer["due_date"])
            return Scheduled(answer["timer_key"], due_date, answer["outcome"], replayed=True)
        case RequestInProgress():
            return Untried.of(IN_FLIGHT, key=request.idempotency_key)
        case OtherParameters():
            return Refused.of(OTHER_REQUEST, key=request.idempotency_key)


def answers_to_store(
    planned: Sequence[PlannedTimer], outcomes: Mapping[int, Scheduled | Refused]
) -> Iterator[tuple[IdempotentRequest, Stored]]:
    """Yield each request for a written timer, with the response to store; a refused request may be sent again."""
    for plan in planned:
        outcome = outcomes[plan.key]
        if plan.request is not None and isinstance(outcome, Scheduled):
            answer = {
                "timer_key": outcome.timer_key,
                "due_date": outcome.due_date.isoformat(),
                "outcome": outcome.outcome,
            }
            yield plan.request, Stored(HTTPStatus.CREATED, json.dumps(answer))

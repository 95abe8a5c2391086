"""Timers that came with requests: what was answered to these before, and what is to be answered from now on."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus

from shardclock_server.sql.clients.outcomes import Refused, RequestDiffers, RequestInFlight, Scheduled
from shardclock_server.sql.clients.planned import PlannedTimer
from shardclock_server.sql.requests.requests import IdempotentRequest, InFlight, OtherParameters, Stored, begin_requests
from shardclock_server.sql.session import Connection


async def replayed_outcomes(connection: Connection, planned: Sequence[PlannedTimer]) -> dict[int, Scheduled | Refused]:
    """Find the timers that must not be written, because of what became of their requests before."""
    asking = [(plan.key, plan.request) for plan in planned if plan.request is not None]
    if not asking:
        return {}
    found = await begin_requests(connection, [request for _, request in asking])
    return {key: _outcome_of(before) for (key, _), before in zip(asking, found, strict=True) if before is not None}


def _outcome_of(before: Stored | InFlight | OtherParameters) -> Scheduled | Refused:
    match before:
        case Stored():
            said = json.loads(before.body)
            due_date = datetime.fromisoformat(said["due_date"])
            return Scheduled(said["timer_key"], due_date, said["outcome"], replayed=True)
        case InFlight():
            return RequestInFlight("its request is being answered at this moment; send it again later")
        case OtherParameters():
            return RequestDiffers("its request's key came with another request before; draw a new one")


def answers_to_store(
    planned: Sequence[PlannedTimer], outcomes: Mapping[int, Scheduled | Refused]
) -> Iterator[tuple[IdempotentRequest, Stored]]:
    """Give the requests whose timers were written, each with its answer: what was refused may be asked for again."""
    for plan in planned:
        outcome = outcomes[plan.key]
        if plan.request is not None and isinstance(outcome, Scheduled):
            said = {
                "timer_key": outcome.timer_key,
                "due_date": outcome.due_date.isoformat(),
                "outcome": outcome.outcome,
            }
            yield plan.request, Stored(HTTPStatus.CREATED, json.dumps(said))

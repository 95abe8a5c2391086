"""Look ahead: what a rule will do, before anything is scheduled by it."""

import time
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from shardclock_server.gateway.access import Reader
from shardclock_server.gateway.answers.timers import OccurrenceAnswer, PreviewAnswer
from shardclock_server.gateway.gateway import Here
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.occurrence import Rule
from shardclock_server.timers.preview import Foreseen, foresee
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.schedule import first_of, parse_schedule
from shardclock_server.timers.zone import zone_of

FORESEEN_MAX = 1_000
PREVIEW_S = 0.5  # of processor time; the rarest rules take a fifth of it for all of their occurrences

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])


@router.get("/preview")
async def preview_schedule(
    gateway: Here,
    caller: Reader,
    *,
    rule: Annotated[str, Query(description="an ISO 8601 repeat or cron", examples=["0 8 * * MON"])],
    zone: Annotated[str, Query(description="whose clock the rule is for", examples=["Europe/Berlin"])] = "UTC",
    count: Annotated[int, Query(ge=1, le=FORESEEN_MAX)] = 10,
    start: Annotated[str | None, Query(alias="from", description="as if scheduled then; if not given, now")] = None,
) -> PreviewAnswer:
    """Show when a schedule will fire, and where a change of the clock matters."""
    clock = zone_of(zone)
    schedule = parse_schedule(rule, clock.key)
    created = datetime.now(UTC).replace(microsecond=0) if start is None else parse_due_date(start, schedule.zone)
    foreseen = await gateway.previews.run(caller.tenant_id, _foreseen, schedule, created, count)
    return PreviewAnswer(occurrences=[OccurrenceAnswer.of(one) for one in foreseen])


def _foreseen(rule: Rule, created: datetime, count: int) -> list[Foreseen]:
    """Find the occurrences of a rule, within a bound of processor time.

    errors:  InvalidTimer  the rule never occurs, or the bound is reached
    """
    until_s = time.thread_time() + PREVIEW_S
    first_of(rule, created)
    found: list[Foreseen] = []
    for occurrence in foresee(rule, created, count=count):
        found.append(occurrence)
        if time.thread_time() > until_s and len(found) < count:
            raise InvalidTimer(
                f"a preview of {shortened(str(rule))} may take {PREVIEW_S:g} s of the processor, and {len(found):,} of"
                f" {count:,} occurrences took as long; ask for count={len(found)} or less, and for more with from"
            )
    return found

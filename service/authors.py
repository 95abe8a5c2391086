"""Find the names of the API keys and of the operators that a timer's explanation mentions."""

from dataclasses import replace

from shardclock_server.service.operator_hold import find_author_of_hold
from shardclock_server.service.timeline import Timeline, detail_of
from shardclock_server.sql.clients.history import read_past_hold
from shardclock_server.sql.keys.keys import find_key_names
from shardclock_server.sql.session import NOT_ALLOWED, Session, StatementRefused


async def with_authors(session: Session, timeline: Timeline, *, tenant_id: str | None) -> Timeline:
    """Add the names of API keys and the authors of holds to a timeline.

    With a `tenant_id`, only the names of this tenant's keys are added, and no author of a hold. The timeline stays
    unchanged if the database role may not read API keys and the audit.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    try:
        named = await _with_key_names(session, timeline, tenant_id)
        return named if tenant_id is not None else await _with_authors_of_holds(session, named)
    except StatementRefused as refused:
        if refused.sqlstate != NOT_ALLOWED:
            raise
        return timeline


async def _with_key_names(session: Session, timeline: Timeline, tenant_id: str | None) -> Timeline:
    prefixes = {str(it["key_prefix"]) for it in map(detail_of, timeline.records) if it.get("key_prefix")}
    if not prefixes:
        return timeline
    return replace(timeline, key_names=await find_key_names(session, sorted(prefixes), tenant_id=tenant_id))


async def _with_authors_of_holds(session: Session, timeline: Timeline) -> Timeline:
    hold, past = timeline.hold, timeline.past_hold
    now = await read_past_hold(session, since=timeline.now, until=timeline.now) if hold is not None else None
    if hold is not None and now is not None and (author := await find_author_of_hold(session, now)):
        hold = replace(hold, why=f"{hold.why}, by {author}")
    if past is not None and (author := await find_author_of_hold(session, past)):
        past = past._replace(why=f"{past.why}, by {author}")
    return replace(timeline, hold=hold, past_hold=past)

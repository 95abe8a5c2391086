"""Parse the position from which a consumer group reads: the log's start or end, a number, or a moment."""

from shardclock.log.async_reading import log_end
from shardclock_server.sql.log.groups import position_at
from shardclock_server.sql.session import Session
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened

START, END = "start", "end"
POSITION_DIGITS = 18


async def position_of(session: Session, text: str, *, called: str = "to") -> int:
    """Return the position after which a group continues to read; a refusal names the option or field `called`.

    errors:  Refusal           the text is not a position and not a moment
             StoreUnavailable  Postgres did not answer within the timeout
    """
    if text == START:
        return 0
    if text == END:
        return await log_end(session)
    if text.isascii() and text.isdecimal() and len(text) <= POSITION_DIGITS:
        return int(text)
    try:
        moment = parse_due_date(text)
    except InvalidTimer as error:
        raise Refusal(
            f"{called} {shortened(text)} is not a place in the log: use {START}, {END}, a position or a moment"
        ) from error
    return await position_at(session, moment)

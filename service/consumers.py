"""Where a consumer group reads on: at the start or the end of the log, at a position, or at a moment."""

from shardclock.log.async_reading import log_end
from shardclock_server.sql.log.groups import place_of
from shardclock_server.sql.session import Session
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened

START, END = "start", "end"
POSITION_DIGITS = 18


async def position_of(session: Session, text: str, *, called: str = "to") -> int:
    """Find the position behind which a group reads on; a refusal calls the text by the name that the user knows.

    errors:  Refusal           it is no place
             StoreUnavailable  no answer in time
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
        raise Refusal(f"{called} {shortened(text)} is no place: use {START}, {END}, a position or a moment") from error
    return await place_of(session, moment)

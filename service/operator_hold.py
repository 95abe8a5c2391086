"""Find the author of an operator's hold. This module is separate, because the coordinator reads holds without the
audit.
"""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.service.audit import DONE
from shardclock_server.sql.audit.acts import AuditCursor, AuditFilter, list_acts
from shardclock_server.sql.clients.history import PastHold, read_past_hold
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session

ACTS_READ = 20  # more than one, because refused repetitions of the command also have audit records


@dataclass(frozen=True, slots=True)
class OperatorHold:
    """The start of an operator's hold, and the operator; None: the audit has no record of the hold."""

    began_at: datetime
    actor: str | None


async def read_operator_hold(session: Session) -> OperatorHold | None:
    """Return the operator's hold that is in force, with its author from the audit.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    now = await read_clock(session)
    held = await read_past_hold(session, since=now, until=now)
    if held is None or held.ended_at is not None:
        return None
    return OperatorHold(held.began_at, await find_author_of_hold(session, held))


async def find_author_of_hold(session: Session, held: PastHold) -> str | None:
    """Return the name of the operator who began a hold; None: the audit has no record of the hold.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
             StatementRefused  the database role may not read the audit
    """
    until = None if held.ended_at is None else AuditCursor(held.ended_at, 0)
    acts = await list_acts(session, AuditFilter(since=held.began_at, verb="hold"), limit=ACTS_READ, after=until)
    authors = [act.key_name or act.key_prefix or act.role for act in acts if act.outcome == DONE]
    return authors[-1] if authors else None

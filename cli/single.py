"""Change one timer, and print its state."""

from collections.abc import Awaitable, Callable

from shardclock.api.changes import VerbOutcomes
from shardclock_server.cli.output import DONE, print_json, print_table
from shardclock_server.cli.session import with_session
from shardclock_server.service import single_change
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session


def change_one(
    which: TimerRef, change: Callable[[Session, TimerRef], Awaitable[str]], outcomes: VerbOutcomes, *, as_json: bool
) -> int:
    """Change a timer, and print its present state."""

    async def do(session: Session) -> int:
        changed = await single_change.change_one(session, which, change, outcomes)
        if as_json:
            print_json({"state": changed.state} | ({"due_date": changed.due_date} if outcomes.shows_date else {}))
        elif outcomes.shows_date:
            print_table("", ["timer", "state", "due"], [(which, changed.word, changed.due_date)])
        else:
            print_table("", ["timer", "state"], [(which, changed.word)])
        return DONE

    return with_session(do)

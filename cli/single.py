"""A change of one timer, with a true answer about its outcome."""

from collections.abc import Awaitable, Callable

from shardclock.api.changes import Outcomes
from shardclock_server.cli.output import DONE, NOT_DONE, print_json, print_table, tell
from shardclock_server.cli.session import with_session
from shardclock_server.service import single_change
from shardclock_server.service.single_change import NotChanged
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session


def change_one(
    which: TimerRef, change: Callable[[Session, TimerRef], Awaitable[str]], outcomes: Outcomes, *, as_json: bool
) -> int:
    """Change a timer, and print the state that it has now."""

    async def do(session: Session) -> int:
        try:
            changed = await single_change.change_one(session, which, change, outcomes)
        except NotChanged as why:
            if as_json:
                print_json({"state": why.state})
            else:
                tell(f"shardclock: {why}")
            return NOT_DONE
        if as_json:
            print_json({"state": changed.state} | ({"due_date": changed.due_date} if outcomes.shows_date else {}))
        elif outcomes.shows_date:
            print_table("", ["timer", "state", "due"], [(which, changed.word, changed.due_date)])
        else:
            print_table("", ["timer", "state"], [(which, changed.word)])
        return DONE

    return with_session(do)

"""Verbs on many timers count first, go through all pages, and report the true number of changes."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from unittest.mock import ANY

import pytest
from rich.console import Console

from shardclock.backoff import Backoff
from shardclock_server.cli import bars
from shardclock_server.service import bulk_change
from shardclock_server.sql.clients.search import find_keys
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.cli_asserts import DONE, NOT_DONE, NOT_THERE, assert_refused, count
from tests.support.factories import add_timers
from tests.support.program import Shell

MANY, PAGE = 50, 20
DAY = datetime(2031, 1, 1, tzinfo=UTC)
VERBS = [["cancel"], ["pause"], ["resume"], ["reschedule", "--shift", "PT1H"]]


AT_ONCE = StoreRetry(attempts=5, backoff=Backoff(0.0, 0.0))


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run commands in this process, on a migrated, empty database; a search and a change have several pages."""
    monkeypatch.setattr(bulk_change, "FOUND_TIMERS", PAGE)
    monkeypatch.setattr(bulk_change, "PAGE_TIMERS", PAGE)
    return Shell(dsn, capsys)


def add(
    shell: Shell, number: int = MANY, due: str = "timestamptz '2031-01-01Z' + i * interval '1 s'", **more: str
) -> None:
    """Add timers of the default tenant."""
    asyncio.run(add_timers(shell.dsn, number, due, **more))


def states(shell: Shell) -> dict[str, int]:
    """Count the timers in each state."""
    rows = shell.sql("select state, count(*) from shardclock.timer_history group by 1 order by 1")
    return dict(map(tuple, rows))


def due_dates(shell: Shell) -> list[timedelta]:
    """Read how long after the start of the day each timer is due, in the order of the keys."""
    rows = shell.sql("select due_date from shardclock.timer_history order by timer_key")
    return [row["due_date"] - DAY for row in rows]


def told(matched: int, changed: int, **more: object) -> dict[str, object]:
    """Return the JSON of a bulk change."""
    counts = {"matched": matched, "changed": changed, "unchanged": 0, "unchanged_reasons": {}}
    return {**counts, "unsure": 0, "left_out": 0, "operation_id": ANY, **more}


def failing(name: str, fails: Callable[[int], BaseException | None], *, answered: bool = False) -> Any:
    """Fail the calls with these numbers (from 1): before the statement runs or, with `answered`, after it ran."""
    rows, calls = Session.call, 0

    async def call(self: Session, statement: str, /, **values: Any) -> Any:
        nonlocal calls
        error = None
        if statement == name:
            calls += 1
            error = fails(calls)
        if error is not None and not answered:
            raise error
        answer = await rows(self, statement, **values)
        if error is not None:
            raise error
        return answer

    return mock.patch.multiple(Session, call=call)


# dry runs


def test_without_yes_a_verb_only_counts(shell: Shell) -> None:
    add(shell)
    add(shell, 3)
    shell("pause", "--all", "--due-before", "2031-01-01T00:00:02Z", "--yes")  # pauses two timers
    before = states(shell), due_dates(shell)
    for verb in VERBS:
        matched = {"pause": MANY + 1, "resume": 2}.get(verb[0], MANY + 3)
        done, again = shell(*verb, "--all"), shell(*verb, "--all", "--json")
        assert (done.code, done.out.split()) == (NOT_DONE, ["matched", "changed", str(matched), "0"]), verb
        assert "nothing was changed; add --yes to" in done.err
        assert (again.code, again.json["matched"], again.json["changed"], again.err) == (NOT_DONE, matched, 0, "")
        for yes in ([], ["--yes"]):
            none = shell(*verb, "--all", "--tenant", "nobody", *yes)
            assert (none.code, none.out.split()) == (DONE, ["matched", "changed", "0", "0"]), verb
            assert "no timer matches" in none.err
    assert (states(shell), due_dates(shell)) == before


# all pages


def test_a_cancel_of_all_includes_pending_and_paused_timers(shell: Shell) -> None:
    add(shell)
    shell("pause", "--all", "--due-before", "2031-01-01T00:00:20Z", "--yes")

    done = shell("cancel", "--all", "--yes", "--reason", "moved house", "--json")

    assert (done.code, done.json, done.err) == (
        DONE,
        told(MANY, MANY),
        "",
    )
    assert states(shell) == {"CANCELED": MANY}
    kept = (
        "select count(*) from shardclock.command_log where intent = 'CANCELED' and detail ->> 'reason' = 'moved house'"
    )
    assert shell.sql(kept)[0][0] == MANY


def test_a_shift_sent_again_under_its_operation_moves_no_timer_twice(shell: Shell) -> None:
    add(shell)

    first = shell("reschedule", "--all", "--shift", "P1D", "--yes", "--json")
    again = shell("reschedule", "--all", "--shift", "P1D", "--yes", "--operation", first.json["operation"])
    other = shell("reschedule", "--all", "--shift", "P1D", "--yes", "--operation", "another", "--json")

    assert f"--operation {first.json['operation']}" in first.err, (
        "printed before the work, because the work may be interrupted"
    )
    assert (again.code, again.out.split()[2:]) == (DONE, [str(MANY), "0"])
    assert "unchanged: 50 had this change already" in again.err
    assert (other.json, other.err) == (
        told(MANY, MANY, operation="another"),
        "",
    )
    assert due_dates(shell) == [timedelta(days=2, seconds=i) for i in range(1, MANY + 1)]


def test_a_terminal_shows_the_progress_of_a_bulk_change(shell: Shell) -> None:
    add(shell)
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)

    with mock.patch.object(bars, "err", terminal):
        shell("pause", "--all", "--yes")

    shown = screen.getvalue()
    for step in ("find", "pause"):
        assert re.search(rf"{step}[^/]*{MANY}/{MANY}", shown)


# the selected timers


def test_a_bulk_change_without_a_tenant_changes_the_default_tenant(shell: Shell) -> None:
    add(shell, 2)
    add(shell, 3, tenant_id="'acme'")

    assert shell("cancel", "--all", "--json").json["matched"] == 2
    assert shell("cancel", "--all", "--tenant", "acme", "--yes", "--json").json["changed"] == 3
    assert count(shell) == 2


def test_a_bulk_change_affects_only_the_timers_of_its_filters(shell: Shell) -> None:
    add(shell, 6, name="case when i % 2 = 0 then 'even-' else 'odd-' end || i", process_instance_key="1 + i / 4")

    def matched(*options: object) -> int:
        return int(shell("cancel", "--all", *options, "--json").json["matched"])

    assert matched("--name-prefix", "even-") == 3
    assert matched("--due-from", "2031-01-01T00:00:05Z") == 2
    assert matched("--due-before", "2031-01-01T00:00:05Z") == 4
    assert matched("--process-instance", 2) == 3
    assert matched("--process-instance", 2, "--name-prefix", "even-", "--due-from", "2031-01-01T00:00:05Z") == 1
    assert shell("cancel", "--all", "--name-prefix", "even-", "--yes", "--json").json["changed"] == 3
    left = shell.sql("select name from shardclock.timers order by 1")
    assert [row["name"] for row in left] == ["odd-1", "odd-3", "odd-5"]


def test_a_cancel_of_a_process_instance_includes_all_tenants_unless_one_is_given(shell: Shell) -> None:
    add(shell, 3, process_instance_key="7", tenant_id="'t-' || i")
    add(shell, 2, process_instance_key="8")
    shell("pause", "--process-instance", 7, "--due-before", "2031-01-01T00:00:02Z", "--yes")
    for options in ([], ["--all"]):
        assert shell("cancel", *options, "--process-instance", 7, "--json").json == told(3, 0)
    assert shell("cancel", "--process-instance", 7, "--tenant", "t-1", "--yes", "--json").json == told(1, 1)
    assert shell("cancel", "--process-instance", 7, "--yes", "--json").json == told(2, 2)
    assert count(shell) == 2


def test_a_cancel_of_a_process_instance_includes_timers_added_during_the_search(shell: Shell) -> None:
    add(shell, 2, process_instance_key="7")
    added = 0

    async def find_and_add(*args: Any, **more: Any) -> Any:
        nonlocal added
        page = await find_keys(*args, **more)
        added += len(await asyncio.to_thread(lambda: asyncio.run(add_timers(shell.dsn, 1, process_instance_key="7"))))
        return page

    with mock.patch.object(bulk_change, "find_keys", find_and_add):
        done = shell("cancel", "--process-instance", 7, "--yes", "--json")

    assert done.json["changed"] == 2 + added > done.json["matched"]
    assert count(shell) == 0


# failures


def test_a_bulk_change_does_not_count_changes_by_another_client(shell: Shell) -> None:
    add(shell, 5)

    async def find_and_cancel(*args: Any, **more: Any) -> Any:
        page = await find_keys(*args, **more)
        cancel = "select shardclock.cancel_timers($1)"
        await asyncio.to_thread(lambda: shell.sql(cancel, page[:2]))
        return page

    with mock.patch.object(bulk_change, "find_keys", find_and_cancel):
        done = shell("pause", "--all", "--yes", "--json")

    assert (done.code, done.json) == (DONE, told(5, 3, unchanged=2, unchanged_reasons={"timer_ended": 2}))


def test_a_lost_answer_is_retried_and_moves_no_timer_twice(shell: Shell) -> None:
    add(shell)
    lost = failing("shift_timers", lambda call: StoreUnavailable("lost") if call == 2 else None, answered=True)

    with lost, mock.patch.object(bulk_change, "PAGE_RETRY", AT_ONCE):
        done = shell("reschedule", "--all", "--shift", "P1D", "--yes", "--operation", "x", "--json")

    assert (done.code, done.json) == (
        DONE,
        told(MANY, MANY, operation="x"),
    )
    assert "may have been" not in done.err
    assert due_dates(shell) == [timedelta(days=1, seconds=i) for i in range(1, MANY + 1)]


def test_a_permanent_outage_of_postgres_is_reported_with_the_changes_until_then(shell: Shell) -> None:
    add(shell)
    gone = failing("shift_timers", lambda call: StoreUnavailable("gone") if call > 1 else None)

    with gone, mock.patch.object(bulk_change, "PAGE_RETRY", AT_ONCE):
        done = shell("reschedule", "--all", "--shift", "P1D", "--yes", "--operation", "x", "--json")

    assert (done.code, done.json["changed"]) == (NOT_THERE, PAGE)
    assert "up to 20 more rows may have been moved" in done.err
    assert "with --operation x for the rest" in done.err.splitlines()[-1]
    assert (
        shell("reschedule", "--all", "--shift", "P1D", "--yes", "--operation", "x", "--json").json["changed"]
        == MANY - PAGE
    )
    assert due_dates(shell) == [timedelta(days=1, seconds=i) for i in range(1, MANY + 1)]


def test_a_count_that_gets_no_answer_changed_nothing(shell: Shell) -> None:
    add(shell, 3)

    with (
        failing("find_keys", lambda _: StoreUnavailable("gone")),
        mock.patch.object(bulk_change, "PAGE_RETRY", AT_ONCE),
    ):
        done = shell("cancel", "--all", "--yes")

    assert_refused(done, "Postgres does not answer", "gone", code=NOT_THERE)
    assert count(shell) == 3


def test_ctrl_c_reports_the_changes_until_then_and_ends_the_operation(shell: Shell) -> None:
    add(shell)

    with failing("cancel_timers", lambda call: KeyboardInterrupt() if call == 2 else None):
        done = shell("cancel", "--all", "--yes", "--json")

    assert (done.code, done.json) == (
        130,
        told(MANY, PAGE),
    )
    assert count(shell) == MANY - PAGE
    left = "select array[state, matched::text, changed::text] from shardclock.operations"
    assert shell.sql(left)[0][0] == ["CANCELED", str(MANY), str(PAGE)]
    assert shell.sql("select count(*) from shardclock.operation_pages")[0][0] == 0


def test_if_a_shift_is_refused_for_a_later_timer_the_moved_timers_are_reported(shell: Shell) -> None:
    add(shell, PAGE)
    add(shell, 1, "'9999-12-31Z'")

    done = shell("reschedule", "--all", "--shift", "P1D", "--yes", "--operation", "x")

    assert (done.code, done.out.split()) == (NOT_DONE, ["matched", "changed", "21", "20"])
    assert "years 1 to 9999" in done.err
    assert "the earlier timers were moved" in done.err
    assert "may have been" not in done.err

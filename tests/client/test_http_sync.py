"""Test that the client without an event loop is generated from the async client, and behaves in the same way."""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import shardclock
from shardclock import http
from shardclock.http import NotFound, TooLate
from tests.support import ROOT
from tests.support.gateways import serving_beside
from tests.support.roles import as_role
from tools.unasync import read_files

GATEWAY = "http://127.0.0.1:9841"
MORNING = datetime(2030, 1, 31, 8, tzinfo=UTC)
BY_HAND = {"sync_keeping", "sync_timing"}
OF_SQLALCHEMY = {"sync_connection"}  # an attribute of SQLAlchemy's connections


@pytest.fixture
def url(dsn: str) -> Iterator[str]:
    """Serve a gateway beside the test, which has no event loop."""
    with serving_beside(as_role(dsn, "gateway")) as url:
        yield url


def test_the_generated_clients_are_up_to_date() -> None:
    written = read_files()

    assert sorted(path.name for path in written) == [
        "sync_batch.py", "sync_client.py", "sync_consuming.py", "sync_groups.py", "sync_leasing.py", "sync_link.py",
        "sync_log.py", "sync_many.py", "sync_member.py", "sync_operating.py", "sync_processes.py", "sync_psycopg.py",
        "sync_reading.py", "sync_sending.py", "sync_sqlalchemy.py", "sync_tasks.py", "sync_timers.py",
    ]  # fmt: skip
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, "write it anew: make docs"
        code = re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.DOTALL)
        left = re.findall(r"\b(?:a?sync(?!hronous)\w*|await|Async\w*)\b", code)
        assert set(left) <= {path.stem for path in written} | BY_HAND | OF_SQLALCHEMY


def test_both_clients_have_the_same_methods_over_http() -> None:
    def methods(client: type) -> dict[str, object]:
        return {
            name.replace("aclose", "close"): inspect.signature(method).parameters
            for name, method in inspect.getmembers(client, inspect.isfunction)
            if not name.startswith("_")
        }

    assert {"schedule", "schedule_many", "log", "redrive"} <= methods(shardclock.Client).keys()
    assert methods(shardclock.Client) == methods(shardclock.AsyncClient)
    assert methods(http.Processes) == methods(http.AsyncProcesses)
    assert methods(http.Tasks) == methods(http.AsyncTasks)


@pytest.mark.slow
def test_a_timer_is_scheduled_found_moved_paused_resumed_run_and_cancelled(url: str) -> None:
    with shardclock.Client(url) as client:
        made = client.schedule(due_date=MORNING, name="n", payload={"order": 42})
        etag = client.get(name="n").etag
        assert client.move(name="n", shift="PT1H", if_match=etag).due_date == MORNING.replace(hour=9)
        assert client.pause(timer_key=made.timer_key).state == "PAUSED"
        assert client.resume(name="n").state == "PENDING"
        assert [timer.name for timer in client.list(name_prefix="n")] == ["n"]
        assert client.wait_for_end(name="n", within="PT0.1S") is None
        cancelling = threading.Timer(0.5, lambda: client.cancel(name="n", reason="paid"))
        cancelling.start()
        end = client.wait_for_end(name="n", within="PT30S")
        cancelling.join()
        assert end is not None
        assert end.intent == "CANCELED"
        with pytest.raises(TooLate):
            client.pause(name="n")
        with pytest.raises(NotFound):
            client.get(name="nobody")
        assert client.records(timer_key=made.timer_key)[0].intent == "CANCELED"
        assert client.explain(timer_key=made.timer_key).why
        assert len(client.preview("R/PT1H", count=3)) == 3
        assert client.put("standup", schedule="0 8 * * MON").outcome == "created"
        assert client.run(name="standup").state
        assert (client.dead_letters(), client.jobs()) == ((), ())


@pytest.mark.slow
def test_many_timers_are_scheduled_changed_and_read_from_the_log(url: str) -> None:
    with shardclock.Client(url) as client:
        lines = list(client.schedule_many(({"delay": "PT1H", "name": f"n{n}"} for n in range(250)), part_lines=100))
        assert [(line.line, line.outcome) for line in lines] == [(n, "created") for n in range(1, 251)]
        counted = client.bulk("cancel", name_prefix="n", reason="strike")
        assert (counted.matched, counted.commit().changed) == (250, 250)
        positions = [record.position for record in client.log()]
        assert len(positions) == 250
        followed = client.log(after=positions[-2], follow=True)
        assert next(followed).position == positions[-1]


@pytest.mark.slow
def test_the_readmes_examples_run(url: str, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_DSN", dsn)
    page = (ROOT / "client" / "README.md").read_text(encoding="utf-8")
    _, _, *examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    assert examples
    for example in examples:
        assert GATEWAY in example or "SHARDCLOCK_DSN" in example
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(example.replace(GATEWAY, url), names)

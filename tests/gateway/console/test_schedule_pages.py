"""Test the pages that make timers and schedules, and the list of schedules with its last firings."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.gateway.console import caching
from shardclock_server.gateway.console.strip import strip_of
from shardclock_server.sql.clients.firings import PastFiring
from tests.support.console import XSS, Browser
from tests.support.console_forms import form_on
from tests.support.factories import HolderClient, add_schedule, add_timers, pending_rows, query
from tests.support.gateways import Api
from tests.support.operations import ends_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_a_form_creates_a_timer_and_a_repeated_request_creates_no_second_timer(
    dsn: str, browser: Browser
) -> None:
    form = await browser.get("/timers/new")
    assert '<option value="log">' in form.text
    fields = {
        "delay": "PT1H", "name": "order-1", "target": "log", "on_conflict": "refuse", "payload": '{"order": 1}',
        "idempotency_key": "k1",
    }  # fmt: skip

    first = await browser.submit("/timers/new", fields)
    second = await browser.submit("/timers/new", fields)

    (row,) = await pending_rows(dsn)
    assert first.location == second.location == f"/console/timers/{row['timer_key']}"
    assert (row["name"], row["target"], row["payload"]) == ("order-1", "log", '{"order": 1}')
    shown = await browser.follow(first)
    assert f"timer {row['timer_key']}: created, due" in shown.text


async def test_a_form_begins_with_the_values_of_another_timer(
    dsn: str, api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "FRESH_S", -1.0)
    once = {"delay": "PT1H", "name": "order-1", "payload": {"order": XSS}}
    rule = {"schedule": "0 8 * * *", "zone": "Europe/Berlin", "missed": "skip", "name": "report"}
    keys = [(await api.post("/v1/timers", fields)).json["timer_key"] for fields in (once, rule)]
    await api.post("/v1/timers/by-name/order-1/cancel")
    for key, path in zip(keys, ("/timers/new", "/schedules/new"), strict=True):
        assert f'href="/console{path}?like={key}"' in (await browser.get(f"/timers/{key}")).text

    like_ended = await browser.get(f"/timers/new?like={keys[0]}")
    like_rule = await browser.get(f"/schedules/new?like={keys[1]}")

    assert "<script>alert" not in like_ended.text
    assert "{&#34;order&#34;: &#34;&lt;script&gt;" in like_ended.text
    assert "order-1" not in like_ended.text, "a name belongs to one timer"
    assert 'name="schedule" type="text" value="0 8 * * *"' in like_rule.text
    assert 'name="zone" type="text" value="Europe/Berlin"' in like_rule.text
    assert '<option value="skip" selected>' in like_rule.text
    assert (await browser.get("/timers/new?like=999999")).status == 404
    (eve,) = await add_timers(dsn, 1, "now() + interval '1 hour'", tenant_id="'eve'")
    assert (await browser.get(f"/timers/new?like={eve}")).status == 404


async def test_a_refused_form_keeps_its_fields_and_has_the_sentence_of_the_api(
    dsn: str, api: Api, browser: Browser
) -> None:
    form = form_on(await browser.get("/timers/new"), "/timers/new")

    async def refused(**fields: str) -> tuple[int, str]:
        shown = await browser.submit(form.action, {"name": XSS, **fields})
        assert 'value="&lt;script&gt;' in shown.text
        assert "<script>alert" not in shown.text
        return shown.status, shown.main

    said = (await api.post("/v1/timers", {"delay": "soon"})).json["detail"]
    assert ((answer := await refused(delay="soon"))[0], said in answer[1]) == (422, True)
    assert "payload '{' is not JSON" in (await refused(delay="PT1H", payload="{"))[1]
    assert "idempotency_key 'é' is refused" in (await refused(delay="PT1H", idempotency_key="é"))[1]
    await browser.submit("/timers/new", {"delay": "PT1H", "name": "order-1"})
    taken = await browser.submit("/timers/new", {"delay": "PT1H", "name": "order-1"})
    assert taken.status == 409
    assert len(await pending_rows(dsn)) == 1


async def test_a_schedule_is_previewed_with_its_clock_changes_and_then_made(dsn: str, browser: Browser) -> None:
    fields = {"schedule": "30 2 * * *", "zone": "Europe/Berlin", "missed": "skip", "name": "report"}

    previewed = await browser.submit("/schedules/preview", fields)
    assert "At 02:30 every day, Europe/Berlin" in previewed.main
    assert previewed.text.count("<tr") == 11, "a header and ten occurrences"
    assert 'value="30 2 * * *"' in previewed.text
    in_march = await browser.submit("/schedules/preview", {**fields, "schedule": "30 2 25-31 3 *"})
    assert 'class="marked"' in in_march.text
    assert "which the clock skips" in in_march.main
    assert await pending_rows(dsn) == []
    wrong = await browser.submit("/schedules/preview?shown_on=/schedules/new", {**fields, "schedule": "30 2"})
    assert (wrong.status, "has 2 fields" in wrong.main) == (422, True)
    assert form_on(wrong, "/schedules/new").fields.items() >= {**fields, "schedule": "30 2"}.items()
    await browser.submit("/schedules/new", fields)

    (row,) = await pending_rows(dsn)
    assert (row["schedule"], row["zone"], row["missed"]) == ("30 2 * * *", "Europe/Berlin", "skip")


async def test_a_schedule_is_listed_with_its_rule_and_its_last_firings(
    dsn: str, shard: HolderClient, api: Api, browser: Browser
) -> None:
    await add_schedule(dsn)
    await api.post("/v1/timers", {"delay": "PT1H", "name": "plain"})
    await shard.fire((await shard.take()).claimed)

    listed = await browser.get("/schedules")

    assert "every hour, UTC R/PT1H" in listed.main
    assert "plain" not in listed.main
    assert "last 1 firing: 0 on time, 1 late, 0 skipped" in listed.text
    one = await browser.get("/timers/by-name/beat")
    assert "last 1 firing: 0 on time, 1 late" in one.text
    assert "FIRED occurrence 1, due at" in one.main


async def test_all_schedules_that_match_are_paused_and_other_timers_continue(
    dsn: str, api: Api, browser: Browser
) -> None:
    await api.post("/v1/timers", {"schedule": "R/PT1H", "name": "report"})
    await api.post("/v1/timers", {"delay": "PT1H", "name": "plain"})
    listed = await browser.get("/schedules")
    assert '<input type="hidden" name="only_schedules" value="true">' in listed.text

    assert '<input type="hidden" name="state" value="pending">' in listed.text
    counted = await browser.submit("/timers/bulk/pause?dry_run=true", {"only_schedules": "true"})
    (token,) = re.findall(r'name="token" value="([^"]*)"', counted.text)
    await browser.submit("/timers/bulk/pause", {"only_schedules": "true", "token": token})
    assert await ends_of(dsn) == [("pause", "DONE", 1, 1)]

    paused = await query(dsn, "select name from shardclock.timers where paused_due_date is not null")
    assert [row["name"] for row in paused] == ["report"]


def test_a_strip_has_a_bar_for_each_firing_and_the_oldest_comes_first() -> None:
    def firing(late_s: float | None) -> PastFiring:
        return PastFiring(NOON + timedelta(hours=1), "SKIPPED" if late_s is None else "TRIGGERED", NOON, 1, late_s, 0)

    strip = strip_of([firing(None), firing(7_200.0), firing(0.0)])

    assert dict(strip.paths) == {"punctual": "M137 24v-4", "late": "M142 24v-24", "skipped": "M147 24v-24"}
    assert strip.label == "last 3 firings: 1 on time, 1 late, 1 skipped"
    assert strip_of([]).paths == []


async def test_the_resume_of_a_schedule_shows_the_missed_occurrences_and_takes_a_choice(
    dsn: str, api: Api, browser: Browser
) -> None:
    await add_schedule(dsn, "R/PT1H", "now() - interval '210 minutes'", anchor="now() - interval '270 minutes'")
    pending = await browser.get("/timers/by-name/beat")
    await api.post("/v1/timers/by-name/beat/pause")

    paused = await browser.get("/timers/by-name/beat?at=")  # The URL differs from the URL of the cached page.
    assert "missed during the pause" not in pending.main
    assert "Missed while paused" not in pending.main
    assert "4 occurrences were missed during the pause" in paused.main
    assert re.search(
        r"Policy for missed occurrences fire_once Missed while paused 4 \(the last at .+ 30 min", paused.main
    )
    assert '<option value="fire_all">' in paused.text
    done = await browser.submit("/timers/by-name/beat/resume", {"missed": "fire_all"})

    assert "PENDING" in (await browser.follow(done)).text
    assert [row["missed_once"] for row in await pending_rows(dsn)] == ["fire_all"]


async def test_a_pause_can_have_an_end_and_the_pages_show_the_newest_end(dsn: str, api: Api, browser: Browser) -> None:
    await api.post("/v1/timers", {"schedule": "R/PT1H", "name": "beat"})
    form = await browser.get("/timers/by-name/beat")
    assert 'name="until"' in form.text

    await browser.submit("/timers/by-name/beat/pause", {"until": "2040-01-01T12:00Z", "missed": "skip"})

    (paused,) = await query(dsn, "select resume_at, resume_missed from shardclock.timers")
    assert tuple(paused) == (datetime(2040, 1, 1, 12, tzinfo=UTC), "skip")
    one = await browser.get("/timers/by-name/beat?at=")
    assert "Paused until 2040-01-01 12:00" in one.main
    assert ", until 2040-01-01 12:00:00.000Z" in one.main
    assert "Change the end" in one.main
    for listed in ("/timers?state=paused", "/schedules?state=paused"):
        assert "2040-01-01 12:00" in (await browser.get(listed)).main
    refused = await browser.submit("/timers/by-name/beat/pause", {"until": "soon"})
    assert "until 'soon' is not an ISO 8601 date-time" in refused.main
    await browser.submit("/timers/by-name/beat/pause")
    assert "Paused until a resume" in (await browser.get("/timers/by-name/beat?at=&x=")).main


async def test_the_resume_of_many_schedules_counts_their_missed_occurrences_and_takes_one_choice(
    dsn: str, api: Api, browser: Browser
) -> None:
    for name in ("a", "b"):
        await add_schedule(
            dsn, "R/PT1H", "now() - interval '90 minutes'", anchor="now() - interval '150 minutes'", name=f"'{name}'"
        )
        await api.post(f"/v1/timers/by-name/{name}/pause")
    chosen = {"only_schedules": "true", "state": "paused"}

    counted = await browser.submit("/timers/bulk/resume?dry_run=true", chosen)
    assert "2 paused timers match" in counted.main
    assert "4 occurrences were missed during the pause" in counted.main
    (token,) = re.findall(r'name="token" value="([^"]*)"', counted.text)
    await browser.submit("/timers/bulk/resume", {**chosen, "missed": "skip", "token": token})
    assert await ends_of(dsn) == [("resume", "DONE", 2, 2)]

    assert [row["missed_once"] for row in await pending_rows(dsn)] == ["skip", "skip"]
    acts = await query(dsn, "select parameters ->> 'missed' as missed from shardclock.audit where verb = 'resume'")
    assert [row["missed"] for row in acts] == ["skip"]

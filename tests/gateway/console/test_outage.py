"""Test that the console alone answers ten questions about an outage, each within two clicks."""

from __future__ import annotations

import html
import re
from typing import NamedTuple

from shardclock_server.sql.session import Session
from tests.support.console import Browser
from tests.support.console_forms import sign_in_as
from tests.support.deliveries import HANDLER
from tests.support.gateways import Api
from tests.support.outage import break_down

CLICKS_MAX = 2
LINK = re.compile(r'<a [^>]*href="/console([^"]*)"')


class OutageQuestion(NamedTuple):
    """A question, the links to follow from the overview (patterns of the links' paths), and patterns of the answer."""

    asked: str
    clicks: tuple[str, ...]
    answers: tuple[str, ...]


QUESTIONS = (
    OutageQuestion(
        "Which target fails, and since when?",
        (),
        (
            rf"Dead letters {HANDLER} 5, the first \S+ \S+ 35 min \d* ?s? ?ago",
            r"Endpoint billing 3 failing, 3 waiting, the oldest fired or redriven \S+ \S+ 30 min",
        ),
    ),
    OutageQuestion(
        "Which timers are late, and why?",
        (r"/timers\?due_before=.*", r"/timers/\d+"),
        (r"Timer late-1 PENDING", r"on hold.*billing is down"),
    ),
    OutageQuestion(
        "Is there a hold, why, since when, and by whom?",
        (),
        (r"On hold an operator said: billing is down, since \S+ \S+ .{0,20} by AUTHOR",),
    ),
    OutageQuestion(
        "Which job did not run, and why?",
        (r"/jobs/nightly",),
        (r"job 'nightly' should have succeeded 1 d .* ago", r"FAILED 1 .*no space left on the disk"),
    ),
    OutageQuestion(
        "What did an operator change in the last hour?", (r"/audit",), (r"AUTHOR hold done all .*billing is down",)
    ),
    OutageQuestion(
        "Which instance has an incident, and where?",
        (),
        (r"Incident p, u the expression total > 5 has no value \S+ \S+ 12 min",),
    ),
    OutageQuestion(
        "What does an endpoint answer?",
        (r"/endpoints/billing", r"/endpoints/billing/attempts"),
        (r"HTTP 503, after 41 ms\. closed for the night",),
    ),
    OutageQuestion(
        "Which tenant is at its quota?", (r"/tenants",), (r"shop FULL timers 3 of 3 ", r"toys timers 0 of 9 ")
    ),
    OutageQuestion(
        "Which keeper died, and which one took over?",
        (r"/cluster",),
        (r"shard rack-1 .* dead .* 4 min", r"0000000000000001 0000000000000002 on rack-2, part 0 of 1"),
    ),
    OutageQuestion(
        "When does a timer fire next, and what did it do?",
        (r"/schedules", r"/timers/by-name/beat"),
        (r"Next occurrences Number Due .* 7 \S+ \S+ in ", r"TRIGGERED 6 \S+ \S+ 1 min"),
    ),
)


async def ask(browser: Browser, question: OutageQuestion, author: str) -> list[str]:
    """Follow a question's links from the overview; return the links and the parts of the answer that are missing."""
    shown = await browser.get("")
    for click in question.clicks:
        paths = [html.unescape(it) for it in LINK.findall(shown.text)]
        path = next((it for it in paths if re.fullmatch(click, it)), None)
        if path is None:
            return [f"no link {click}: {paths}"]
        shown = await browser.get(path)
    missing = [it for it in question.answers if not re.search(it.replace("AUTHOR", author), shown.main)]
    return [*missing, shown.main] if missing else []


async def test_ten_questions_of_an_outage_are_answered_within_two_clicks(
    dsn: str, api: Api, locked_browser: Browser, owner: Session
) -> None:
    await break_down(dsn, api)
    await sign_in_as(locked_browser, owner, "admin", tenant=None)  # the key of this browser has the name `admin`
    await locked_browser.submit("/cluster/hold", {"reason": "billing is down"})

    assert len(QUESTIONS) == 10
    assert max(len(it.clicks) for it in QUESTIONS) <= CLICKS_MAX
    missing = {it.asked: await ask(locked_browser, it, "admin") for it in QUESTIONS}
    assert {asked: found for asked, found in missing.items() if found} == {}

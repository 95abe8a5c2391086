"""Test the description of a rule in plain words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock_server.timers.rule_words import describe_rule
from shardclock_server.timers.schedule import parse_schedule
from tests.support.cron_rules import spring_texts, unix_texts

CASES = {
    "R/PT1H": "every hour",
    "R3/PT15M": "every 15 minutes, 3 times",
    "R1/P1D": "every day, once",
    "R/P1Y2M": "every 1 year 2 months",
    "R/P14D": "every 2 weeks",
    "R10/PT0.5S": "every 0.5 seconds, 10 times",
    "R/PT36H": "every 36 hours",
    "R/2026-01-31T08:00:00Z/P1D": "every day, from 2026-01-31 08:00 on",
    "R/P1D/2026-03-31T08:00:30Z": "every day, until 2026-03-31 08:00:30",
    "0 8 * * MON": "at 08:00 on Monday",
    "0 8,12 * * MON-FRI": "at 08:00 and 12:00 on Monday to Friday",
    "0 8 * * *": "at 08:00 every day",
    "0 8 * 1,7 *": "at 08:00 every day in January and July",
    "@daily": "at 00:00 every day",
    "@hourly": "every hour",
    "*/15 * * * *": "every 15 minutes",
    "* 9-17 * * *": "every minute from 09:00 to 17:59",
    "*/5 9 * * SAT,SUN": "every 5 minutes from 09:00 to 09:59 on Saturday and Sunday",
    "0 9-17 * * *": "every hour from 09:00 to 17:00",
    "0 */6 * * *": "at 00:00, 06:00, 12:00 and 18:00 every day",
    "0 */4 * * *": "every 4 hours",
    "0 1,5,9,11,22 * * *": "at 01:00, 05:00, 09:00, 11:00 and 22:00",
    "7 * * * *": "at minute 7 of every hour",
    "*/7 * * * *": "at minutes 0, 7, 14, 21, 28 and 4 more of every hour",
    "30 8,10,20 1,15 * *": "at 08:30, 10:30 and 20:30 on days 1 and 15 of the month",
    "0 0 13 * FRI": "at 00:00 on day 13 of the month and on Friday",
    "0 0 1-31 * FRI": "at 00:00 every day",
    "0 0 */2 * FRI": "at 00:00 on days 1, 3, 5, 7, 9 and 11 more of the month, only on Friday",
    "0 0 0 13 * FRI": "at 00:00 on day 13 of the month, only on Friday",
    "0 0 0 L-3 * ?": "at 00:00 on the day 3 days before the last day of the month",
    "0 0 12 LW * ?": "at 12:00 on the last workday of the month",
    "0 0 12 15W 3-5 ?": "at 12:00 on the workday nearest to day 15 of the month in March to May",
    "0 0 12 ? * 5L": "at 12:00 on the last Friday of the month",
    "0 0 12 ? * MON#2": "at 12:00 on the second Monday of the month",
    "*/10 * * * * *": "every 10 seconds",
    "5 * 8 * * *": "at second 5 of every minute from 08:00 to 08:59",
    "0,30 0-9 * * * *": "every 30 seconds of minutes 0 to 9",
    "* * 8,10 * * *": "every second in the hours 8 and 10",
}


@pytest.mark.parametrize(("text", "words"), CASES.items())
def test_a_rule_is_described_in_plain_words(text: str, words: str) -> None:
    assert describe_rule(parse_schedule(text)) == f"{words}, UTC"


def test_a_description_names_the_zone_and_shows_local_times() -> None:
    rule = parse_schedule("R/2026-07-01T08:00[Europe/Berlin]/P1D", "Europe/Berlin")

    assert describe_rule(rule) == "every day, from 2026-07-01 08:00 on, Europe/Berlin"


@given(st.one_of(unix_texts, spring_texts))
def test_each_cron_rule_has_a_short_description(text: str) -> None:
    words = describe_rule(parse_schedule(text))

    assert words.isprintable()
    assert len(words) < 400

"""Step through cron rules, and draw rules and zones at random."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from hypothesis import strategies as st

from shardclock_server.timers.cron import Cron, parse_cron
from shardclock_server.timers.occurrence import ScheduledOccurrence
from shardclock_server.timers.zone import zone_of

# Zones with different changes of the clock: an hour, half an hour, at midnight, a whole day, at Ramadan, in winter
# (Dublin), and no change.
ZONES = [
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"),
    *("Africa/Casablanca", "Europe/Dublin", "America/Juneau", "Asia/Kolkata", "UTC"),
]
zones = st.sampled_from(ZONES).map(zone_of)


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def occurrences(cron: Cron, created: datetime) -> Iterator[ScheduledOccurrence]:
    occurrence = cron.first(created)
    while occurrence is not None:
        yield occurrence
        occurrence = cron.next(occurrence)


def local_times(text: str, zone: str, created: str, count: int) -> list[str]:
    cron = parse_cron(text, zone_of(zone))
    found = islice(occurrences(cron, moment(created)), count)
    return [occurrence.due_date.astimezone(cron.zone).isoformat(timespec="minutes") for occurrence in found]


WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


def numbers(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """Write a field of numbers, in every notation."""
    number = st.integers(low, high)
    step = st.integers(1, 9)
    some = st.lists(number, min_size=2, max_size=2, unique=True).map(sorted)
    item = st.one_of(
        number.map(str),
        some.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.builds(lambda ends, step: f"{ends[0]}-{ends[1]}/{step}", some, step),
        st.builds(lambda first, step: f"{first}/{step}", number, step),
        st.sampled_from(names or [str(high)]),
    )
    star = st.just("*") | step.map(lambda step: f"*/{step}")
    return star | st.lists(item, min_size=1, max_size=3).map(",".join)


unix_days = numbers(1, 31) | st.sampled_from(["L", "LW", "1,L", "28-31", "*"])
unix_weekdays = numbers(0, 7, WEEKDAYS) | st.sampled_from(["5L", "0L", "7#1", "MON#5", "1,5L", "*"])
unix_texts = st.tuples(numbers(0, 59), numbers(0, 23), unix_days, numbers(1, 12, MONTHS), unix_weekdays).map(" ".join)
spring_days = unix_days | st.sampled_from(["?", "L-3", "15W", "1W", "31W"])
spring_weekdays = unix_weekdays | st.just("?")
spring_texts = st.tuples(
    *(numbers(0, 59), numbers(0, 59), numbers(0, 23), spring_days, numbers(1, 12, MONTHS), spring_weekdays)
).map(" ".join)

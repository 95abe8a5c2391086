"""Rules that Shardclock refuses, each with a text of its refusal, and random rules, of which most are refused."""

from __future__ import annotations

from random import Random

REFUSED_CRON = [
    ("", "has 0 fields; write six (second minute"),
    ("*", "has 1 field; write six"),
    ("* * * *", "has 4 fields; write six"),
    ("0 0 0 1 1 ? 2026", "has seven fields, the seventh being Quartz's year; write six"),
    ("* * * * * * * *", "has 8 fields"),
    ("@reboot", "is not a nickname that we know; write one of @yearly"),
    ("@daily 5", "is not a nickname"),
    ("60 * * * * *", "has the second '60'; write 0 to 59"),
    ("* 0-60 * * * *", "has the minute '60'; write 0 to 59"),
    ("* * 24 * * *", "has the hour '24'; write 0 to 23"),
    ("* * * 0 * *", "has the day-of-month '0'; write 1 to 31"),
    ("* * * 32W * *", "has the day-of-month '32'; write 1 to 31"),
    ("* * * * 13 *", "has the month '13'; write 1 to 12"),
    ("* * * * * 8", "has the day-of-week '8'; write 0 to 7"),
    ("* * * * * 8L", "has the day-of-week '8'"),
    ("* * * * * 5#6", "has the day-of-week '5#6'; write #1 to #5"),
    ("* * * * * 5#0", "has the day-of-week '5#0'; write #1 to #5"),
    ("* * * L-0 * *", "has the day-of-month 'L-0'; write L-1 to L-30"),
    ("* * * L-31 * *", "has the day-of-month 'L-31'; write L-1 to L-30"),
    ("* 5-1 * * * *", "has the minute '5-1', which runs backwards"),
    ("* * * * * FRI-MON", "has the day-of-week 'FRI-MON', which runs backwards"),
    ("* * * * * 5-0", "has the day-of-week '5-0', which runs backwards"),
    ("* * * * NOV-FEB *", "has the month 'NOV-FEB', which runs backwards"),
    ("* * * * * SUN-SUN", "has the day-of-week 'SUN-SUN'; write SUN for Sundays, or * for every day"),
    ("* * * * * 7-7", "has the day-of-week '7-7'"),
    ("*/0 * * * * *", "has the second '*/0', whose step is zero"),
    ("1-5/0 * * * * *", "has the second '1-5/0', whose step is zero"),
    ("* 1,,2 * * * *", "has the minute ''; write *"),
    ("* 1, * * * *", "has the minute ''"),
    ("* -1 * * * *", "has the minute '-1'"),
    ("* +1 * * * *", "has the minute '+1'"),
    ("* 1/-1 * * * *", "has the minute '1/-1'"),
    ("* 1/ * * * *", "has the minute '1/'"),
    ("* 1-2-3 * * * *", "has the minute '1-2-3'"),
    ("* 1/2/3 * * * *", "has the minute '1/2/3'"),
    ("* ** * * * *", "has the minute '**'"),
    ("* 1.5 * * * *", "has the minute '1.5'"),
    ("* JAN * * * *", "has the minute 'JAN'"),
    ("* * * * MON *", "has the month 'MON'"),
    ("* * * * JANUARY *", "has the month 'JANUARY'"),
    ("* * * * * JAN", "has the day-of-week 'JAN'"),
    ("* * * * * SUN*", "has the day-of-week 'SUN*'"),
    ("* * * * * L", "has the day-of-week 'L'"),
    ("* * * * * L5", "has the day-of-week 'L5'"),
    ("* * * W * *", "has the day-of-month 'W'"),
    ("* * * 1-5W * *", "has the day-of-month '1-5W'"),
    ("* * * LW-1 * *", "has the day-of-month 'LW-1'"),
    ("* * L * * *", "has the hour 'L'"),
    ("* ? * * * *", "has the minute '?', which only stands alone in a day field of six-field cron"),
    ("* * * ?,1 * *", "has the day-of-month '?', which only stands alone"),
    ("* * ? * *", "has the day-of-month '?', which only stands alone"),
    ("* * * * \u0663 *", "contains a character that cron does not use"),
    ("* * * * \u00a0* *", "contains a character that cron does not use"),
    ("* * * * *\x00", "contains a character that cron does not use"),
    ("* * *\n* * *", "contains a character that cron does not use"),
    ("* * * * *\x1c*", "contains a character that cron does not use"),
    ("CRON_TZ=Asia/Tokyo 0 8 * * *", "names a zone; leave CRON_TZ=Asia/Tokyo out, and give 'Asia/Tokyo' as zone"),
    ("TZ=UTC 0 0 8 * * *", "names a zone; leave TZ=UTC out, and give 'UTC' as zone"),
    ("\ud800", "contains a character that cron does not use"),
    ("* * * * * " + "1," * 95 + "1", "is longer than 200 characters"),
]

REFUSED_REPEATS = [
    ("R-2/PT1S", "has the count -2"),
    ("R2147483648/PT1S", "has the count 2147483648"),
    ("R99999999999/PT1S", "has the count 99999999999"),
    ("R-0/PT1S", "has the count"),
    ("R/PT0S", "has a period of zero"),
    ("R/P0D", "has a period of zero"),
    ("R/PT0.5S", "repeats more often than once a second; write a period of PT1S or longer, or a count of at most 10"),
    ("R11/PT0.999999S", "repeats more often than once a second"),
    ("R-1/2031-01-01T00:00:00Z/PT0.001S", "repeats more often than once a second"),
    ("R/PT0.001S/2031-01-01T00:00:00Z", "repeats more often than once a second"),
    ("R/2031-01-01T00:00:00Z/2031-01-01T00:00:00.5Z", "repeats more often than once a second"),
    ("R/PT", "has no valid period: 'PT' is not an ISO 8601 duration"),
    ("R/P1DT", "has no valid period"),
    ("R/P0.5M", "has no valid period"),
    ("R/-PT1S", "has no valid period: '-PT1S' has a minus sign"),
    ("R/2024-01-01T00:00:00Z/-P1D", "has no valid period: '-P1D' has a minus sign"),
    ("R/PT1S\n", "has no valid period"),
    ("R/P9999Y9999M", "has no valid period"),
    ("R/P1D[Europe/Berlin]", "has no valid period"),
    ("R/2024-01-01T00:00:00Z", "has no valid period"),
    ("R3/2024-01-01T00:00:00/P1D", "has no valid start or end: '2024-01-01T00:00:00' has no offset from UTC"),
    ("R/P1D/2024-01-01T00:00", "has no valid start or end: '2024-01-01T00:00' has no offset from UTC"),
    ("R/2024-01-01T00:00[UTC]/2024-01-02T00:00", "'2024-01-02T00:00' has no offset from UTC"),
    ("R/2024-01-01T00:00+02:00[Europe/Berlin]/P1D", "has another offset than Europe/Berlin at that time"),
    ("R/P1D/P1D", "has no valid start or end: 'P1D' is not an ISO 8601 date-time"),
    ("R/-P1D/2024-01-01T00:00:00Z", "has no valid period: '-P1D' has a minus sign"),
    ("R/2024-01-01T00:00:00Z/PT0S", "has a period of zero"),
    ("R/2024-01-01T00:00:00Z/2024-01-01T00:00:00Z", "ends before or at its beginning"),
    ("R/2024-01-01T00:00:00Z/2023-01-01T00:00:00Z", "ends before or at its beginning"),
    ("R/2024-01-01T00:00Z[UTC]/2024-01-02T00:00Z[Europe/Berlin]", "names the time zones Europe/Berlin and 'UTC'"),
    ("R/2024-01-01T00:00[localtime]/P1D", "'localtime' is not an IANA time zone"),
    ("R/0001-01-01T00:00Z/P1D", "falls outside the years 0001 to 9999 in UTC"),
    (
        "R/0001-01-01T00:00:01Z[America/New_York]/P1D",
        "leaves the years 0001 to 9999 on the clock of America/New_York",
    ),
    *[(text, "is not an ISO 8601 repeat") for text in ("", "/", "R", "R3", "R5/", "r3/PT1S", "R++3/PT1S")],
    *[(text, "is not an ISO 8601 repeat") for text in (" R/PT1S", "R٣/PT1S", "R//", "R///PT1S", "R/P1D/", "R[UTC/P1D")],
    ("R/2024-01-01T00:00Z/P1D/2025-01-01T00:00Z", "is not an ISO 8601 repeat"),
    ("R" + "1" * 100_000 + "/PT1S", "is not an ISO 8601 repeat"),
    ("R/" + "[" * 100_000 + "/PT1S", "is not an ISO 8601 repeat"),
]

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
NAMES = (*WEEKDAYS, "JAN", "FEB", "APR", "JUN", "SEP", "DEC", "FOO")
CRON_KINDS = ((0, 60), (0, 60), (0, 24), (0, 32), (0, 13), (0, 8))
RARE_DAYS = ("30", "31", "29", "31W", "L-30", "30,31", "1", "15W", "L", "*", "?", "29-31")
RARE_MONTHS = ("2", "FEB", "4,6", "*", "2,4", "2-3", "11")
RARE_WEEKDAYS = ("*", "?", "MON", "MON#5", "5L", "SAT", "SUN#1", "1-5", "MON#5,TUE#1")


def drawn_rule(draw: Random) -> str:
    """Draw a rule that may be valid, may never occur, or may be refused for any reason."""
    return draw.choice((_drawn_cron, _drawn_rare_cron, _drawn_repeat, _drawn_repeat))(draw)


def _drawn_cron(draw: Random) -> str:
    kinds = CRON_KINDS[draw.randint(0, 1) :]
    return " ".join(",".join(_drawn_item(draw, *kind) for _ in range(draw.choice((1, 1, 1, 2, 3)))) for kind in kinds)


def _drawn_rare_cron(draw: Random) -> str:
    day, month, weekday = draw.choice(RARE_DAYS), draw.choice(RARE_MONTHS), draw.choice(RARE_WEEKDAYS)
    return f"{draw.choice(('0 0', '0 0 0'))} {day} {month} {weekday}"


def _drawn_item(draw: Random, lowest: int, highest: int) -> str:
    number, other, step = (str(draw.randint(lowest, highest)) for _ in range(3))
    name, another = draw.choice(NAMES), draw.choice(NAMES)
    plain = (number, number, number, "*", "*", f"{number}-{other}", f"{number}/{step}", f"*/{step}", name)
    special = ("L", "LW", f"L-{number}", f"{number}W", f"{number}L", f"{name}#{step}", f"{number}#5", f"{name}L")
    odd = ("?", "", "x", "1-", "-1", "5/", "7-7", "SUN-SUN", "0-7", "1.5")
    return draw.choice((*plain, f"{name}-{another}", draw.choice(special), draw.choice(odd)))


def _drawn_repeat(draw: Random) -> str:
    count = draw.choice(("", "", "5", "-1", "-3", "0", "+7", "2147483648"))
    length, moment, other = _drawn_length(draw), _drawn_moment(draw), _drawn_moment(draw)
    rest = draw.choice((length, f"/{length}", f"{moment}/{length}", f"{length}/{moment}", f"{moment}/{other}", moment))
    return f"R{count}/{rest}"


def _drawn_length(draw: Random) -> str:
    most = draw.choice((2, 99, 99_999))
    date = "".join(f"{draw.randint(0, most)}{unit}" for unit in "YMWD" if draw.random() < 0.3)
    time = "".join(f"{draw.randint(0, 99)}{unit}" for unit in "HMS" if draw.random() < 0.5)
    sign, ending = draw.choice(("", "", "", "+", "-")), draw.choice(("", "", "", ".5S", "T1.5S"))
    return f"{sign}{draw.choice('PPp')}{date}{draw.choice(('', f'T{time}'))}{ending}"


def _drawn_moment(draw: Random) -> str:
    year, month, day = draw.choice((2031, 2020, 9999, 0, 1, 2027)), draw.randint(1, 13), draw.randint(1, 31)
    time = (
        f"{draw.randint(0, 24):02}:{draw.randint(0, 60):02}{draw.choice(('', ':00', ':30.5', ':59,123456789', ':61'))}"
    )
    offset = draw.choice(("", "Z", "Z", "+01:00", "+0200", "-05", "+23:59", "z"))
    zone = draw.choice(("", "", "", "[Europe/Berlin]", "[America/New_York]", "[UTC]", "[Mars]"))
    return f"{year:04}-{month:02}-{day:02}T{time}{offset}{zone}"

"""Define timers and compute their due dates, without any I/O.

A timer fires once, at its due date. A user requests a timer in one of three ways: with a due date (`moment`), a delay
(`duration`) or a schedule (`schedule`). A schedule has a rule that creates one timer after another. A rule is an ISO
8601 repeat (`repeat`) or a cron expression (`cron`, built on `cron_fields`, `cron_local` and `offsets`). `occurrence`
defines the interface of all rules. `schedule` applies the policy for missed occurrences to all kinds of rules.
`preview` lists the next occurrences of a rule, and `rule_words` describes a rule. `model` defines the fields of a new
timer and the part of a claimed timer that a shard keeps in memory. `payload` checks payloads. `bucket` is the rate
limiter that all packages use.

Years, months, weeks and days are calendar time: they are counted on the wall clock of a zone (`zone`). Hours, minutes
and seconds are elapsed time, which is the same in all zones. So P1D and PT24H differ on the days when the zone's clock
changes.

All functions here are pure: they use no clock and no database, and they read only the files of the zone database. Only
Postgres's clock decides when a timer is due. So callers pass `now` as an argument. Moments are aware and in UTC,
because Python never considers a moment in a repeated hour equal to a moment of another zone (PEP 495). Fractions of a
microsecond are rounded up, because a timer may be late but never early.

Parsers raise `refusal.InvalidTimer` for invalid input. The error's message is one sentence with the value, the rule and
the remedy.
"""

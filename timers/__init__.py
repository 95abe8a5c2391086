"""Define timers and compute their due dates, without any I/O.

A timer is a promise to fire once, at its due date. A user requests a timer in one of three ways: with a due date
(`moment`), a delay (`duration`) or a schedule (`schedule`). A schedule is a rule that makes one timer after another. A
rule is an ISO 8601 repeat (`repeat`) or a cron expression (`cron`, built on `cron_fields`, `cron_local` and `offsets`).
`occurrence` defines the interface of all rules. `schedule` applies the policy for missed occurrences, in the same way
for all rules. `preview` lists the next occurrences of a rule, and `rule_words` describes a rule. `model` defines the
fields of a new timer and the part of a claimed timer that a shard keeps in memory. `payload` checks payloads. `bucket`
is the rate limit of every package.

Years, months, weeks and days are calendar time, read on the wall clock of a zone (`zone`). Hours, minutes and seconds
are elapsed time, which is the same in all zones. So P1D and PT24H differ on the two days of a year when the zone's
clock changes.

All functions here are pure: they use no clock, no database, and no files except those of the zone database.
The only clock is Postgres's. The caller passes `now`, and tests set the time. Moments are aware and
in UTC, because two moments in a repeated hour never compare equal across zones (PEP 495). Fractions of a microsecond
are rounded up, because a timer may be late but never early.

Invalid input is refused as soon as it is read, with `refusal.InvalidTimer`. Its message is one sentence with the value,
the rule and the way out.
"""

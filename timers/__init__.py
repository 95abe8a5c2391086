"""Define what a timer is and when it is due, without touching anything outside the process.

A timer is a promise to fire once, at its due date. A user asks for a timer in one of three ways: with a due date
(`moment`), a delay (`duration`) or a schedule (`schedule`), the rule that makes one timer after another. A rule is an
ISO 8601 repeat (`repeat`) or a cron expression (`cron`, built on `cron_fields`, `cron_local` and `offsets`).
`occurrence` defines what every rule can say about its occurrences. `schedule` decides, in the same way for all rules,
what becomes of occurrences that were not fired in time. `preview` shows what a rule will do. `model` defines what a
user may ask for and what a shard keeps of it in memory, `payload` what may travel with a timer, `texts` which texts
Postgres can't store. `bucket` limits a rate, for every package that does.

Years, months, weeks and days are calendar time, read on the wall clock of a zone (`zone`). Hours, minutes and seconds
are elapsed time, the same everywhere. So P1D and PT24H differ on the two days a year when the clock is changed.

Everything here is a pure function of its arguments: no clock, no database, no files but the zone database's.
Postgres's clock is the only clock, so the caller passes `now`, and tests move time by hand. Moments are aware and
in UTC, because two moments in a repeated hour never compare equal across zones (PEP 495). Fractions of a microsecond
are rounded up, because a timer may be late but never early.

Bad input is refused as soon as it is read, with `refusal.InvalidTimer`: one sentence with the value, the rule and the
way out.
"""

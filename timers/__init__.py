"""Say what a timer is and when it is due, without touching anything outside the process.

A timer is a promise to fire once, at its due date. A user asks for one in one of three ways: a due date
(`moment`), a delay (`duration`) or a schedule (`schedule`), the rule that makes one timer after another. A rule is an
ISO 8601 repeat (`repeat`) or a cron expression (`cron`, on `cron_fields`, `cron_local` and `stretches`); what every
rule can tell of its occurrences stands in `occurrence`, and what becomes of those that nobody fired in time is decided
in `schedule`, for all rules alike. `preview` shows what a rule will do. What the user may ask for, and what a shard
keeps of it in memory, stands in `model`; what may travel with it, in `payload`.

Years, months, weeks and days are calendar time, read on the wall clock of a zone (`zone`); hours, minutes and seconds
are elapsed time, the same everywhere. So P1D and PT24H part company on the two days a year when the clock is set.

Everything here is a pure function of its arguments: no clock, no database, no files but the zone database's.
Postgres's clock is the only clock, so whoever calls passes `now`, and tests move time by hand. Moments are aware and
in UTC, because two moments in a repeated hour never compare equal across zones (PEP 495). What is finer than a
microsecond is rounded up, because a timer may be late but never early.

What is refused is refused at the door, as `refusal.InvalidTimer`: one sentence with the value, the rule and
the way out.
"""

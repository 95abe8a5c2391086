"""Say what a timer is and when it is due, without touching anything outside the process.

A timer is a promise to fire once, at its due date. A user asks for one in one of three ways: a due date
(`moment`), a delay (`duration`) or a schedule (`schedule`), the rule that makes one timer after another.
What the user may ask for, and what a shard keeps of it in memory, stands in `model`; what may travel with it,
in `payload`.

Everything here is a pure function of its arguments: no clock, no database, no files. Postgres's clock is the
only clock, so whoever calls passes `now`, and tests move time by hand. Moments are aware and in UTC, because
two moments in a repeated hour never compare equal across zones (PEP 495). What is finer than a microsecond is
rounded up, because a timer may be late but never early.

What is refused is refused at the door, as `refusal.InvalidTimer`: one sentence with the value, the rule and
the way out.
"""

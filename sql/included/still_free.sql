-- Restricts the timers `t` to the timers that are free and were not leased since the read.
and shardclock.is_free(
    t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
    array(select freed.holder from freed)
)
-- Don't take a row that was leased after the read, even if its holder was suspended before.
and (
    t.claimed_until > coalesce(:now::timestamptz, now()) + :lease
    and t.claimed_until <= coalesce(:now::timestamptz, now()) + 2 * :lease
) is not true

-- Moves those of many timers that are pending or paused by a length; sent again, it moves none twice.
--
-- in:    $1 timer_keys bigint[], $2 shift text, $3 operation text: names this one move
-- out:   timer_key bigint of those that it changed
-- locks: the timers' rows
-- index: timers_pkey, a probe a key
select k.timer_key from shardclock.shift_timers($1, $2, $3) as k (timer_key)

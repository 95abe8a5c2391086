-- Records that a coordinator leads today: retention counts such days.
--
-- in:    nothing
-- out:   nothing
-- locks: today's row, when it is new
-- index: log_days_pkey
insert into shardclock.log_days (day)
values ((now() at time zone 'UTC')::date)
on conflict (day) do nothing

-- Records that a coordinator leads today; drop_log_partition counts these days.
--
-- in:    nothing
-- out:   nothing
-- locks: today's row, if it is new
-- index: log_days_pkey
insert into shardclock.log_days (day)
values ((now() at time zone 'UTC')::date)
on conflict (day) do nothing

-- Signals of one instance are taken in their order, also while one of them is put off because no engine could take it.

-- The few that are put off, by instance: sql/processes/take_signals.sql asks for each signal whether one is before it.
create index deliveries_put_off on shardclock.deliveries ((coalesce(process_instance_key, timer_key)))
where target = 'process:instance' and failed_attempts > 0;

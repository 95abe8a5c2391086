-- The signals of one instance are taken in order. If one is put off, because no engine could take it, the later ones wait.

-- The few that are put off, by instance: sql/processes/take_signals.sql asks for each signal whether one is before it.
create index deliveries_put_off on shardclock.deliveries ((coalesce(process_instance_key, timer_key)))
where target = 'process:instance' and failed_attempts > 0;

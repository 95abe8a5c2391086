-- Those that run are listed in order for each version, however many have ended since. The condition stays as nobody else
-- asks: 0039.
drop index shardclock.instances_running;
create index instances_running on shardclock.instances (definition_key, (instance_key + 0))
where (ended_at is null) is true;

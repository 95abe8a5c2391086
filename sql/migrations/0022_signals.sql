-- Signals to instances are deliveries, too, and they are the engines': while nothing else is on its way, and no target is
-- there, no workers are wanted. Until now they were started for each burst of signals, and ended after it.
create or replace function shardclock.has_targets()
returns boolean
language sql
stable
begin atomic
    select exists (select from shardclock.handlers h where h.withdrawn_at is null)
        or exists (select from shardclock.endpoints)
        or exists (select from shardclock.jobs j where j.withdrawn_at is null)
        -- A delivery whose target was removed becomes a dead letter, and only a worker does that. Two ranges, because an
        -- index finds no inequality: signals may be many.
        or exists (select from shardclock.deliveries d where d.target < 'process:instance')
        or exists (select from shardclock.deliveries d where d.target > 'process:instance');
end;

comment on function shardclock.has_targets is
    'Internal: Says whether a timer can have a target but the log, or a delivery is on its way to one: else no workers are wanted.';

-- Two engines, as there are two shards and two workers: one that dies leaves half of the instances going, and the other
-- half is taken over.
update shardclock.scale set wanted = 2 where role = 'engine' and wanted = 1;

-- As of the other verbs (docs/decisions/0005-queue-plans.md): a plan that a client's connection has made while a table was
-- empty, and vacuumed, read all of it for each call, until the table was analyzed again. A start with a key took 500 us
-- beside 3,500 others, and takes 140 now.
alter function shardclock.start_process(text, jsonb, text, integer, text) set enable_seqscan = off;
alter function shardclock.signal_instance(bigint, text, jsonb, bigint) set enable_seqscan = off;
alter function shardclock.set_variables(bigint, jsonb, bigint, text) set enable_seqscan = off;
alter function shardclock.resolve_incident(bigint, bigint, text) set enable_seqscan = off;
alter function shardclock.claim_task(bigint, text, text) set enable_seqscan = off;
alter function shardclock.complete_task(bigint, jsonb, text) set enable_seqscan = off;
alter function shardclock.publish_message(text, text, jsonb, text, interval) set enable_seqscan = off;
alter function shardclock.throw_signal(text, jsonb, text) set enable_seqscan = off;
alter function shardclock.redrive_dead_letters(bigint[], integer) set enable_seqscan = off;
alter function shardclock.discard_dead_letters(bigint[], text) set enable_seqscan = off;

-- Cancels an instance of a process, or discards the dead letter of its start.
--
-- Two callers may cancel the same start concurrently. The first caller replaces the dead letter by an instance. The
-- second caller may have searched for the instance too early and for the dead letter too late, so it searches once
-- more.
--
-- in:    instance_key bigint, tenant_id text
-- out:   text
-- locks: the new signal; the dead letter of a start that was given up
-- index: instances_pkey, deliveries_pkey, dead_letters_pkey
create or replace function shardclock.cancel_instance(instance_key bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    ended_as text;
    is_sought_again boolean := false;
begin
    loop
        if shardclock.signal_instance(instance_key, tenant_id, '{"kind": "cancel"}') = 'SENT' then
            return 'SENT';
        end if;
        select i.outcome into ended_as
        from shardclock.instances i
        where i.instance_key = cancel_instance.instance_key
            and (cancel_instance.tenant_id is null or i.tenant_id = cancel_instance.tenant_id);
        if found then
            return ended_as;
        end if;
        perform
        from shardclock.dead_letters d
        where d.timer_key = cancel_instance.instance_key
            and (d.target = 'process:instance') is true
            and d.process_instance_key is null
            and d.payload ->> 'kind' is distinct from 'thrown'
            and (cancel_instance.tenant_id is null or d.tenant_id = cancel_instance.tenant_id);
        if found then
            if shardclock.cancel_start(instance_key) then
                return 'SENT';
            end if;
            -- Another caller has redriven or discarded the dead letter in the meantime: search for the instance again.
        elsif is_sought_again then
            return 'NOT_FOUND';
        else
            is_sought_again := true;
        end if;
    end loop;
end
$$;

comment on function shardclock.cancel_instance is $$Cancels an instance of a process, in the caller's transaction: an
engine terminates its tokens, with their timers, jobs, tasks and called processes. If the start of the instance is a dead letter, the instance is cancelled immediately, and the dead letter is discarded.

instance_key: the instance
tenant_id: refuse an instance of another tenant; null: any tenant
returns: SENT: an engine will cancel the instance; CANCELED: the instance was cancelled before; COMPLETED or ERROR: too late, the instance has ended with this outcome; NOT_FOUND: the instance is unknown, or was deleted
errors: none
example: select shardclock.cancel_instance(42);
$$;

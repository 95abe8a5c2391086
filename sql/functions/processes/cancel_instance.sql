-- Two callers may cancel an instance whose start was given up. The second looks for the instance, and finds none yet.
-- Then the first one writes it, and the dead letter goes; the second finds no dead letter either. So it looks once
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
            -- Somebody has redriven it meanwhile: it may have begun.
        elsif is_sought_again then
            return 'NOT_FOUND';
        else
            is_sought_again := true;
        end if;
    end loop;
end
$$;

comment on function shardclock.cancel_instance is $$Cancels an instance of a process, in the caller's transaction: an
engine terminates its tokens, and its timers, jobs, tasks and called processes with them. One whose start was given up is
cancelled at once: the dead letter of its start is discarded.

instance_key: the instance
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT; CANCELED: it was cancelled already; COMPLETED or ERROR: too late, it has ended so; NOT_FOUND: it never was, or is forgotten
errors: none
example: select shardclock.cancel_instance(42);
$$;

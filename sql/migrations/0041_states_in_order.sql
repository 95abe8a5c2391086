-- Of many instances few end otherwise than by completing: these are listed without reading the others, nor those of other
-- tenants. In an expression
-- the key is no use to who looks an instance up by it: docs/decisions/0005-queue-plans.md. The condition is written so that
-- the planner takes it for one that leaves nothing out: else it counts an outcome that is asked for twice, takes the rows
-- for few, and sorts all of them.
create index instances_by_outcome on shardclock.instances (tenant_id, outcome, (instance_key + 0))
where coalesce(outcome, 'COMPLETED') <> 'COMPLETED';

-- Starts that were given up are listed twice: among incidents, by the time, and among the instances that start, by their
-- keys. Each tenant's are listed by themselves. The condition is written as nobody else asks: on an empty table these
-- indexes would be as good as any for those who look for one of them by its key.
create index dead_letters_of_starts_by_death on shardclock.dead_letters (tenant_id, died_at, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

create index dead_letters_of_starts on shardclock.dead_letters (tenant_id, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

create index deliveries_of_starts on shardclock.deliveries (tenant_id, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

-- After a way back, engines of a release that knows no business keys forget instances. So the schema itself takes the key.
create function shardclock.forget_business_keys()
returns trigger
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from shardclock.business_keys b
    where b.instance_key = any (array(select g.instance_key from gone g));
    return null;
end
$$;

comment on function shardclock.forget_business_keys is 'Internal: Forgets the business keys of instances with them.';

create trigger instances_forget_business_keys after delete on shardclock.instances
referencing old table as gone
for each statement execute function shardclock.forget_business_keys();

-- Two may cancel an instance whose start was given up. The second looks for the instance, and finds none yet. Then the
-- first one writes it, and the dead letter goes; the second finds no dead letter either. So it looks once more.
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

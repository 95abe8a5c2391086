-- How many shards a forecast may ask for, and counts of what clients did, for metrics.

alter table shardclock.coordination
    add column shards_min integer,
    add column shards_max integer,
    add column target_per_s integer not null default 5000,
    add constraint policy_is_whole check ((shards_min is null) = (shards_max is null)),
    add constraint policy_is_1_to_840 check (shards_min between 1 and 840 and shards_max between shards_min and 840),
    add constraint target_per_s_is_positive check (target_per_s > 0);

comment on column shardclock.coordination.shards_min is
    'With shards_max: the leading coordinator follows the forecast between the two; null: shards_wanted is an operator''s.';
comment on column shardclock.coordination.target_per_s is 'How many timers a second one shard is reckoned to fire.';

-- Counting rows of the log by intent would read all of it. A sequence is counted without a lock and read at once;
-- what is rolled back counts too, as in Postgres's own statistics, and a crash may add up to 32.
create sequence shardclock.canceled_seq as bigint;
create sequence shardclock.rescheduled_seq as bigint;
create sequence shardclock.paused_seq as bigint;
create sequence shardclock.resumed_seq as bigint;

comment on sequence shardclock.canceled_seq is 'How many timers clients have cancelled: a count for metrics.';
comment on sequence shardclock.rescheduled_seq is 'How many timers clients have moved: a count for metrics.';
comment on sequence shardclock.paused_seq is 'How many timers clients have paused: a count for metrics.';
comment on sequence shardclock.resumed_seq is 'How many timers clients have resumed: a count for metrics.';

-- Whoever may write to the log may count: a role with grants of its own goes on cancelling.
do $$
declare
    role record;
begin
    for role in
        select distinct case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
        from pg_class c
        cross join aclexplode(c.relacl) a
        where c.oid = 'shardclock.position_seq'::regclass and a.privilege_type = 'USAGE'
    loop
        execute format(
            'grant usage on sequence shardclock.canceled_seq, shardclock.rescheduled_seq, shardclock.paused_seq,'
            ' shardclock.resumed_seq to %s', role.name
        );
    end loop;
end
$$;

-- Every verb writes its records through this one.
create or replace function shardclock.log_of(timers shardclock.timers, intent text, due_date timestamptz, detail jsonb)
returns void
language sql
as $$
    select case log_of.intent
        when 'CANCELED' then nextval('shardclock.canceled_seq')
        when 'RESCHEDULED' then nextval('shardclock.rescheduled_seq')
        when 'PAUSED' then nextval('shardclock.paused_seq')
        when 'RESUMED' then nextval('shardclock.resumed_seq')
    end;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    values (
        (timers).timer_key, (timers).process_instance_key, (timers).element_instance_key, log_of.due_date,
        (timers).created_at, (timers).occurrence, log_of.intent, (timers).tenant_id, (timers).timer_type,
        (timers).target, (timers).target_element_id, (timers).name, (timers).schedule, (timers).payload,
        jsonb_strip_nulls(log_of.detail || jsonb_build_object('by', current_user))
    )
$$;

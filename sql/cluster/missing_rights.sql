-- Lists the rights that `shardclock up` needs and the current role lacks, as GRANT statements.
--
-- in:    nothing
-- out:   one row for each missing right; no row if the schema does not exist:
--        role text: the current role
--        group_role text: the role that has all these rights, or null if `shardclock migrate --roles` never ran
--        missing text: a grant
-- locks: nothing
-- index: Postgres's own catalogs
with tables (name, rights) as (
    values
        ('migrations', '{select}'::text[]),
        ('functions', '{select}'),
        ('timers', '{select,insert,update,delete}'),
        ('command_log', '{select,insert}'),
        ('log_writers', '{select}'),
        ('consumers', '{select}'),
        ('deliveries', '{select,insert,update,delete}'),
        ('dead_letters', '{select,insert}'),
        ('handlers', '{select,insert,update}'),
        ('endpoints', '{select,update}'),
        ('endpoint_attempts', '{select,insert,update,delete}'),
        ('event_subscriptions', '{select}'),
        ('event_throttles', '{select,insert,update,delete}'),
        ('operator_events', '{select,insert,update,delete}'),
        ('jobs', '{select,insert,update}'),
        ('job_runs', '{select,insert,update,delete}'),
        ('records_aside', '{select}'),
        ('holders', '{select,insert,update,delete}'),
        ('beats', '{select,insert,update,delete}'),
        ('presence', '{select}'),
        ('coordination', '{select,update}'),
        ('leadership', '{select,update}'),
        ('scale', '{select,update}'),
        ('log_days', '{select,insert}'),
        ('identity', '{select,update}'),
        ('definitions', '{select}'),
        ('instances', '{select,insert,update,delete}'),
        ('instance_steps', '{select,insert,delete}'),
        ('incidents', '{select,insert,update,delete}'),
        ('subscriptions', '{select,insert,update,delete}'),
        ('messages', '{select,update,delete}'),
        ('process_starts', '{select,update,delete}'),
        ('business_keys', '{select,delete}'),
        ('tasks', '{select,insert,update,delete}'),
        ('task_acts', '{select,insert,delete}'),
        ('tenant_usage', '{select,insert,update,delete}')
),
sequences (name, rights) as (
    values
        ('timer_key_seq', '{select,usage}'::text[]),
        ('position_seq', '{select,usage}'),
        ('canceled_seq', '{select}'),
        ('rescheduled_seq', '{select}'),
        ('paused_seq', '{select}'),
        ('resumed_seq', '{select,usage}')
),
functions (name) as (
    values
        ('adopt'), ('advance_keys'), ('body_of_event'), ('broken_rule'), ('cancel_start'), ('correlate_waiting'),
        ('declare_job'), ('declare_jobs'), ('drop_job_timer'), ('drop_log_partition'), ('end_pauses'),
        ('ensure_log_partitions'), ('find_definition'), ('has_no_start'), ('has_quota_for_start'), ('has_old_timer'), ('has_targets'),
        ('foreign_reason'), ('hold_reason'), ('is_free'), ('is_reserved_name'), ('is_too_deep'), ('kind_of_target'),
        ('late_since'), ('lock_job_names'), ('lock_message'), ('log_horizon'), ('log_of'), ('log_of_job'),
        ('repair_job_waits'),
        ('named_target'), ('next_start'), ('on_service_task_ended'), ('origin'), ('out_of_range'), ('plan_job'),
        ('quota_of'), ('read_log'), ('read_log_page'), ('reserved'), ('reserved_rule'), ('rehome_log_default'),
        ('resume_job'), ('resume_rows'), ('remaining_quota'), ('send_events'), ('send_signal'), ('stale_period'), ('stop_job'),
        ('maintain_jobs'), ('too_deep'), ('unknown_job'), ('unknown_target'), ('usage_of'), ('waits_for_old_clock'),
        ('with_failure'), ('withdraw_jobs')
),
lacking as (
    select 1 as sort, format('usage on schema %I', n.nspname) as missing
    from pg_catalog.pg_namespace n
    where n.nspname = 'shardclock' and not has_schema_privilege(n.oid, 'usage')
    union all
    select 2, format('%s on shardclock.%I', string_agg(r.name, ', ' order by r.place), c.relname)
    from tables
    join pg_catalog.pg_class c on c.relname = tables.name
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = 'shardclock'
    cross join lateral unnest(tables.rights) with ordinality as r (name, place)
    where not has_table_privilege(c.oid, r.name)
    group by c.relname
    union all
    select 3, format('%s on sequence shardclock.%I', string_agg(r.name, ', ' order by r.place), c.relname)
    from sequences
    join pg_catalog.pg_class c on c.relname = sequences.name
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = 'shardclock'
    cross join lateral unnest(sequences.rights) with ordinality as r (name, place)
    where not has_sequence_privilege(c.oid, r.name)
    group by c.relname
    union all
    select 4, format('execute on function shardclock.%I', p.proname)
    from functions
    join pg_catalog.pg_proc p on p.proname = functions.name
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace and n.nspname = 'shardclock'
    where not has_function_privilege(p.oid, 'execute')
)
select current_user::text as role, to_regrole('shardclock_shard')::text as group_role, l.missing
from lacking l
order by l.sort, l.missing

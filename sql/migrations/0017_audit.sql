-- The audit: what operators did, one record for each verb. Nobody but the owner may write to it, save by record_act.

create table shardclock.audit (
    act_id bigint generated always as identity,
    recorded_at timestamptz not null default clock_timestamp(),
    role text not null,
    interface text not null,
    key_prefix text,
    key_name text,
    tenant_id text,
    verb text not null,
    what jsonb not null,
    outcome text not null,
    address text,

    constraint audit_pkey primary key (act_id),
    constraint interface_is_known check (interface in ('api', 'cli')),
    constraint outcome_is_known check (outcome in ('done', 'not done', 'failed')),
    constraint verb_is_1_to_100_characters check (length(verb) between 1 and 100),
    constraint what_is_a_short_object check (jsonb_typeof(what) = 'object' and octet_length(what::text) <= 16384),
    constraint texts_are_short check (
        greatest(length(key_prefix), length(key_name), length(tenant_id), length(address)) <= 200
    )
);

create index audit_by_age on shardclock.audit (recorded_at, act_id);

comment on table shardclock.audit is 'What operators did, one record for each verb, for 400 days.';
comment on column shardclock.audit.role is 'The database role that logged in: a gateway''s, or an operator''s own.';
comment on column shardclock.audit.interface is 'api: the HTTP API; cli: the command line.';
comment on column shardclock.audit.key_prefix is 'Of the API key; null: none was needed.';
comment on column shardclock.audit.tenant_id is 'For which tenant it was done; null: for the whole installation.';
comment on column shardclock.audit.what is 'What was asked for; what may be secret stands there as … alone.';
comment on column shardclock.audit.outcome is
    'done; not done: it was refused, or nothing was to be done; failed: it may be done in part.';
comment on column shardclock.audit.address is 'Where the caller was, as far as the program or Postgres saw.';

-- Appends a record, and forgets up to 100 that are older than 400 days: so they are forgotten as fast as others come.
create function shardclock.record_act(
    interface text, key_prefix text, key_name text, tenant_id text, verb text, what jsonb, outcome text, address text
)
returns bigint
language plpgsql
-- It runs as its owner: who acts may append, and can neither change nor remove what was recorded.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    added bigint;
begin
    insert into shardclock.audit (
        role, interface, key_prefix, key_name, tenant_id, verb, what, outcome, address
    )
    values (
        session_user, record_act.interface, record_act.key_prefix, record_act.key_name, record_act.tenant_id,
        record_act.verb, record_act.what, record_act.outcome, coalesce(record_act.address, host(inet_client_addr()))
    )
    returning act_id into added;
    delete from shardclock.audit a
    where a.act_id in (
        select o.act_id
        from shardclock.audit o
        where o.recorded_at < now() - interval '400 days'
        order by o.recorded_at, o.act_id
        limit 100
        for update skip locked
    );
    return added;
end
$$;

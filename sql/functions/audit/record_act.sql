-- Appends a record of an operator's act, with the role that the session logged in as, and forgets up to 100 records
-- that are older than 400 days: so they are forgotten as fast as others come.
--
-- in:    interface text, key_prefix text, key_name text, tenant_id text, verb text, what jsonb, outcome text, address
--        text
-- out:   bigint: act_id of the record
-- locks: the new row, and the rows that it deletes; leaves out those that others have locked
-- index: audit_by_age
create or replace function shardclock.record_act(
    interface text, key_prefix text, key_name text, tenant_id text, verb text, what jsonb, outcome text, address text
)
returns bigint
language plpgsql
-- It runs as its owner: an operator's role may add a record, and can neither change nor remove one.
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

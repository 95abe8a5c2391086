-- Appends an audit record of an operator's act; the record names the session's login role, too. Each call also deletes
-- up to 100 records that are older than 400 days.
--
-- in:    interface text, key_prefix text, key_name text, subject text, tenant_id text, verb text, parameters jsonb,
--        outcome text, address text
-- out:   bigint: act_id of the record
-- locks: the new row, and the rows that it deletes; skips locked rows
-- index: audit_by_age
create or replace function shardclock.record_act(
    interface text, key_prefix text, key_name text, subject text, tenant_id text, verb text, parameters jsonb,
    outcome text, address text
)
returns bigint
language plpgsql
-- The function runs as its owner, so that an operator's role can add records through this function, but can't change or
-- delete records.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    added bigint;
begin
    insert into shardclock.audit (
        role, interface, key_prefix, key_name, subject, tenant_id, verb, parameters, outcome, address
    )
    values (
        session_user, record_act.interface, record_act.key_prefix, record_act.key_name, record_act.subject,
        record_act.tenant_id, record_act.verb, record_act.parameters, record_act.outcome, coalesce(record_act.address, host(inet_client_addr()))
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

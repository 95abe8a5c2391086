-- Locks a message's name and correlation key: only one transaction at a time can publish or correlate messages with
-- this name and this key.
--
-- in:    tenant_id text, name text, correlation text
-- out:   nothing
-- locks: the name and key, until the transaction ends
-- index: none
create or replace function shardclock.lock_message(tenant_id text, name text, correlation text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pg_advisory_xact_lock(hashtextextended(tenant_id || ' ' || name || ' ' || correlation, 19))
$$;

comment on function shardclock.lock_message is
    'Internal: Locks a message''s name and correlation key.';

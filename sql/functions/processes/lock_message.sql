-- Takes the lock of a message's name and key: one transaction at a time publishes such a message or searches it for a
-- token.
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
    'Internal: Waits for other transactions that correlate messages of this name and key.';

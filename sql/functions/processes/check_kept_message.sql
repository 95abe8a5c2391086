-- Checks a tenant's quota for a new stored message; a trigger calls this function.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: none
create or replace function shardclock.check_kept_message()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.check_process_quota(new.tenant_id, 'messages');
    return new;
end
$$;

comment on function shardclock.check_kept_message is
    'Internal: Refuses to store a message beyond the tenant''s quota.';

-- Checks a tenant's quota for a stored message, in a trigger.
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
    'Internal: Refuses a kept message that exceeds the tenant''s quota.';

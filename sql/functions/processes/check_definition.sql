-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: none
create or replace function shardclock.check_definition()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.check_process_quota(new.tenant_id, 'definitions');
    if jsonb_path_exists(new.starts, '$[*] ? (@.kind == "timer")') then
        perform shardclock.check_process_quota(
            new.tenant_id, 'timers', jsonb_array_length(jsonb_path_query_array(new.starts, '$[*] ? (@.kind == "timer")'))
        );
    end if;
    return new;
end
$$;

comment on function shardclock.check_definition is
    'Internal: Refuses a version of a process if it or its start timers exceed the tenant''s quota.';

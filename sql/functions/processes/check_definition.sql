-- Checks a tenant's quotas for a new version of a process; a trigger calls this function.
--
-- The same transaction ends the start timers of the previous version. So only additional start timers need quota.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: the index of find_definition; timers_by_name_prefix
create or replace function shardclock.check_definition()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    added bigint := jsonb_array_length(jsonb_path_query_array(new.starts, '$[*] ? (@.kind == "timer")'));
begin
    perform shardclock.check_process_quota(new.tenant_id, 'definitions');
    if added > 0 then
        added := added - (
            select count(*)
            from shardclock.definitions d
            cross join lateral jsonb_array_elements(d.starts) with ordinality as s (start, number)
            join shardclock.timers t
                on t.tenant_id = d.tenant_id and t.name = 'start:' || d.definition_key || ':' || s.number
            where d.definition_key = shardclock.find_definition(new.tenant_id, new.process_id)
        );
    end if;
    if added > 0 then
        perform shardclock.check_process_quota(new.tenant_id, 'timers', added);
    end if;
    return new;
end
$$;

comment on function shardclock.check_definition is
    'Internal: Refuses a version of a process if it or its start timers exceed the tenant''s quota.';

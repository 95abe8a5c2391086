-- Removes the start timers and the subscriptions of a definition, so that no event begins an instance of it.
--
-- in:    definition_key bigint
-- out:   nothing
-- locks: the start timers and subscriptions
-- index: definitions_pkey, timers_by_name_prefix, subscriptions_by_definition
create or replace function shardclock.close_starts(definition_key bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    keys bigint[];
begin
    -- Search again until no start timer is left, because a schedule may fire during this call, and its next occurrence
    -- has another key.
    loop
        keys := array(
            select t.timer_key
            from shardclock.definitions d
            cross join lateral jsonb_array_elements(d.starts) with ordinality as s (start, number)
            join shardclock.timers t
                on t.tenant_id = d.tenant_id and t.name = 'start:' || d.definition_key || ':' || s.number
            where d.definition_key = close_starts.definition_key
        );
        exit when keys = '{}';
        perform shardclock.cancel_if_pending(keys, 'its definition was replaced or deleted', true);
    end loop;
    delete from shardclock.subscriptions s where s.definition_key = close_starts.definition_key;
end
$$;

comment on function shardclock.close_starts is
    'Internal: Removes the start timers and the subscriptions of a definition''s start events.';

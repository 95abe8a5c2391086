-- Adds the prefix of the caller's API key to the history of a user task; a trigger calls this function.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: none
create or replace function shardclock.note_key_prefix()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.detail := new.detail || jsonb_build_object('key_prefix', left(current_setting('shardclock.key_prefix'), 60));
    return new;
end
$$;

comment on function shardclock.note_key_prefix is
    'Internal: Stores the prefix of the caller''s API key in an act on a task.';

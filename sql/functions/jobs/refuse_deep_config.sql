-- Refuses a job's configuration that is nested too deeply; a trigger calls this function.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: none
create or replace function shardclock.refuse_deep_config()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', shardclock.too_deep('config', new.config)
        using errcode = 'invalid_parameter_value', constraint = 'invalid_config';
end
$$;

comment on function shardclock.refuse_deep_config is
    'Internal: Refuses the configuration of a job that is nested too deeply.';

-- Returns the names of the columns that a description would change.
--
-- in:    spec jsonb
-- out:   text[]: {added}, or the names of columns; empty: no change
-- locks: nothing
-- index: jobs_pkey
create or replace function shardclock.changes_of_job(spec jsonb)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    before shardclock.jobs;
begin
    select j.* into before from shardclock.jobs j where j.name = spec ->> 'name';
    if not found then
        return '{added}';
    end if;
    return array(
        select d.key
        from jsonb_each(to_jsonb(shardclock.described_job(spec))) d
        where d.key = any ('{function,every_s,schedule,zone,missed,overlap,priority,config,policy}')
            and d.value is distinct from to_jsonb(before) -> d.key
        union all
        select 'disabled' where (spec ->> 'disabled')::boolean <> (before.disabled_at is not null)
        order by 1
    );
end
$$;

comment on function shardclock.changes_of_job is
    'Internal: Returns the columns of a job that differ from a description.';

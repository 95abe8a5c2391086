-- What is otherwise than before, if a job becomes as described: {added}, or the names of columns; none: nothing.
--
-- in:    said jsonb
-- out:   text[]: {added}, or the names of columns; none: nothing
-- locks: nothing
-- index: jobs_pkey
create or replace function shardclock.changes_of_job(said jsonb)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    before shardclock.jobs;
begin
    select j.* into before from shardclock.jobs j where j.name = said ->> 'name';
    if not found then
        return '{added}';
    end if;
    return array(
        select d.key
        from jsonb_each(to_jsonb(shardclock.described_job(said))) d
        where d.key = any ('{function,every_s,schedule,zone,missed,overlap,priority,config,policy}')
            and d.value is distinct from to_jsonb(before) -> d.key
        union all
        select 'disabled' where (said ->> 'disabled')::boolean <> (before.disabled_at is not null)
        order by 1
    );
end
$$;

comment on function shardclock.changes_of_job is
    'Internal: Says what would be otherwise than before, if a job became as described.';

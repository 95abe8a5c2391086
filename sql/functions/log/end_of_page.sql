-- Returns the position at which a page of the log ends for a reader of one tenant.
--
-- Without this limit, a request of a tenant that has no records would read the whole log.
--
-- in:    after bigint, page_size integer
-- out:   bigint
-- locks: nothing
-- index: command_log_in_order of each partition
create or replace function shardclock.end_of_page(after bigint, page_size integer)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- read_log explains these settings.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    settled bigint := shardclock.log_horizon();
begin
    return (
        select max(p.position)
        from (
            select l.position
            from shardclock.command_log l
            where l.position > end_of_page.after and l.position <= settled
            order by l.position
            limit end_of_page.page_size
        ) p
    );
end
$$;

comment on function shardclock.end_of_page is
    'Internal: Returns the position of the last record of a page, for the records of all tenants; null: there is no
    record.';

-- Deletes the business keys of deleted instances; a trigger calls this function after each statement that deletes
-- instances.
--
-- in:    nothing
-- out:   trigger
-- locks: the rows that it deletes
-- index: business_keys_pkey
create or replace function shardclock.forget_business_keys()
returns trigger
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from shardclock.business_keys b
    where b.instance_key = any (array(select g.instance_key from gone g));
    return null;
end
$$;

comment on function shardclock.forget_business_keys is 'Internal: Deletes the business keys of deleted instances.';

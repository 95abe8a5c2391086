-- A coordinator asks this function, and not hold_reason. During an operator's hold it leads: then shards and workers
-- are there when the hold ends. On a database of another installation it never leads. The caller passes the row, if it
-- has read it.
--
-- in:    identity text, whose shardclock.identity
-- out:   text
-- locks: nothing
-- index: identity_pkey
create or replace function shardclock.foreign_reason(identity text, whose shardclock.identity default null)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    here text;
begin
    if whose is null then
        select i.* into whose from shardclock.identity i where i.singleton;
    end if;
    if whose.origin is null or foreign_reason.identity is null then
        return null;
    end if;
    here := shardclock.origin();
    if whose.origin <> here then
        return format('the database is a copy, or was moved: it ran as %s and is %s now', whose.origin, here);
    end if;
    -- A database without a name puts no cluster on hold: else an operator who gives a cluster a name would stop it.
    if whose.name <> foreign_reason.identity then
        return format(
            'the database belongs to %s, and the cluster %s', whose.name,
            case foreign_reason.identity
                when '' then 'has no SHARDCLOCK_IDENTITY'
                else 'is ' || foreign_reason.identity
            end
        );
    end if;
    return null;
end
$$;

comment on function shardclock.foreign_reason is
    'Internal: Says why this is not the database of a cluster that is configured for an installation; null: it is.';

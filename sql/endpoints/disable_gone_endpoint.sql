-- Disables an enabled endpoint after the receiver at its current URL answered 410 Gone; never waits for a lock.
--
-- in:    :tenant_id text, :name text, :url text (the URL that answered), :why text
-- out:   done boolean: one row; false: another transaction has locked the endpoint's row; call again
-- locks: the endpoint's row, until the statement ends; skips a locked row
-- index: endpoints_pkey
with free as materialized (
    select e.name
    from shardclock.endpoints e
    where e.tenant_id = :tenant_id and e.name = :name
    for update of e skip locked
),
disabled as (
    update shardclock.endpoints e
    set disabled_at = now(), disabled_why = :why, changed_at = now()
    where e.tenant_id = :tenant_id
        and e.name = any (array(select f.name from free f))
        and e.disabled_at is null
        and e.url = :url
)
select
    exists (select from free)
        or not exists (select from shardclock.endpoints e where e.tenant_id = :tenant_id and e.name = :name)
    as done

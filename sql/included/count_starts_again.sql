-- Lets the tenant's next start count the usage again, because a limit changes.
with counted as (
    -- Set had_quota to false, so that the next start counts the usage again. Skip a locked row: the transaction with
    -- the lock has just counted it.
    update shardclock.tenant_usage u
    set had_quota = false
    where (u.tenant_id, u.resource) in (
        select t.tenant_id, t.resource
        from shardclock.tenant_usage t
        where t.tenant_id = :tenant_id::text and t.resource = 'starts'
        for update skip locked
    )
)

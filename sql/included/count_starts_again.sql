-- Lets the next start of the tenant count the starts again, because the limit changes.
with counted as (
    -- Set had_quota to false, so that the next start counts again. Skip a locked row, because the transaction with the
    -- lock has just counted.
    update shardclock.tenant_usage u
    set had_quota = false
    where (u.tenant_id, u.resource) in (
        select t.tenant_id, t.resource
        from shardclock.tenant_usage t
        where t.tenant_id = :tenant_id::text and t.resource = 'starts'
        for update skip locked
    )
)

-- Finds dead letters, the newest first, one page at a time.
--
-- in:    :timer_key bigint or null, :target text or null, :tenant_id text or null, :died_before timestamptz or null
--        :reason_line text or null: the first line of the reason
--        :after_at timestamptz and :after_key bigint: the last row of the previous page, nulls for the first page
--        :limit bigint
--        :bytes bigint: the page ends when the JSON and the reasons of its rows have this size
-- out:   timer_key bigint, target text, tenant_id text, name text, occurrence bigint, due_date timestamptz, fired_at
--          timestamptz, died_at timestamptz, failed_attempts integer, reason text, payload text, failures text
--        found bigint: the number of matching dead letters, counted up to :limit + 1; each row has the same number
-- locks: nothing
-- index: dead_letters_pkey, dead_letters_by_target, or the whole table, which operators should keep small
with found as (
    -- Read no JSON before the sort, because Postgres would convert and sort the JSON of all dead letters.
    select d.*
    from shardclock.dead_letters d
    where (:timer_key::bigint is null or d.timer_key = :timer_key)
        and (:target::text is null or d.target = :target)
        and (:tenant_id::text is null or d.tenant_id = :tenant_id)
        and (:died_before::timestamptz is null or d.died_at < :died_before)
        and
        -- include: included/has_reason_line.sql
        and (
            :after_key::bigint is null
            or d.died_at < :after_at::timestamptz
            or (d.died_at = :after_at and d.timer_key > :after_key)
        )
    order by d.died_at desc, d.timer_key
    limit :limit::bigint + 1
),
written as materialized (
    select
        f.timer_key, f.target, f.tenant_id, f.name, f.occurrence, f.due_date, f.fired_at, f.died_at, f.failed_attempts,
        f.reason, f.payload::text as payload, f.failures::text as failures
    from found f
),
measured as (
    select
        w.*,
        row_number() over (order by w.died_at desc, w.timer_key) as place,
        count(*) over () as found,
        sum(octet_length(w.reason) + coalesce(octet_length(w.payload), 0) + coalesce(octet_length(w.failures), 0)) over
        (
            order by w.died_at desc, w.timer_key rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from written w
)
select
    m.timer_key, m.target, m.tenant_id, m.name, m.occurrence, m.due_date, m.fired_at, m.died_at, m.failed_attempts,
    m.reason, m.payload, m.failures, m.found
from measured m
where m.place <= :limit and coalesce(m.bytes_before, 0) < :bytes::bigint
order by m.died_at desc, m.timer_key

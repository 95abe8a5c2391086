-- Finds endpoints with deliveries that became due recently. The cost does not depend on the number of endpoints.
--
-- in:    :behind_at timestamptz and :behind_key bigint: reads after this delivery; null: from five seconds ago
--        :deliveries integer: the limit of deliveries to read
--        :each integer: the limit of endpoints for each tenant
--        :now timestamptz or null
-- out:   a row for each endpoint:
--        target text, tenant_id text
--        next_attempt_at timestamptz and timer_key bigint: the soonest delivery of the endpoint that was read
--        then a row without a target, with the cursor of the next read: the last delivery that was read; if there are
--          no more deliveries, the time of this read and a null key
-- locks: nothing
-- index: deliveries_of_endpoints, from :behind_at on
with due as materialized (
    select d.target, d.tenant_id, d.next_attempt_at, d.timer_key
    from shardclock.deliveries d
    where d.target like 'webhook:%'
        and (d.next_attempt_at, d.timer_key) > (
            coalesce(:behind_at::timestamptz, coalesce(:now::timestamptz, now()) - interval '5 s'),
            coalesce(:behind_key::bigint, 0)
        )
        and d.next_attempt_at <= coalesce(:now, now())
    order by d.next_attempt_at, d.timer_key
    limit :deliveries::integer
),
lane as (
    select distinct on (d.tenant_id, d.target) d.target, d.tenant_id, d.next_attempt_at, d.timer_key
    from due d
    order by d.tenant_id, d.target, d.next_attempt_at, d.timer_key
),
numbered as (
    select
        l.target, l.tenant_id, l.next_attempt_at, l.timer_key,
        row_number() over (partition by l.tenant_id order by l.next_attempt_at, l.timer_key) as number
    from lane l
)
select n.target, n.tenant_id, n.next_attempt_at, n.timer_key from numbered n where n.number <= :each::integer
union all
(
    select null, null, last.next_attempt_at, last.timer_key
    from (
        select d.next_attempt_at, d.timer_key, 1 as number
        from due d
        where (select count(*) from due) >= :deliveries
        union all
        select coalesce(:now, now()), null, 2
    ) last
    order by last.number, last.next_attempt_at desc, last.timer_key desc
    limit 1
)

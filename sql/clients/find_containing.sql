-- Finds pending or paused timers with a text in their names. A call reads only a limited number of a tenant's names.
--
-- in:    :state text: PENDING or PAUSED
--        :tenant_id text
--        :name_contains text: in upper or lower case
--        then filters, null for none:
--        :due_from timestamptz, :due_before timestamptz, :process_instance_key bigint, :target text, :only_schedules
--          boolean, :changed_from timestamptz, :changed_before timestamptz
--        then:
--        :after text: read only names after this one; '': all names
--        :names_max integer: the limit of names to read
--        :page_size integer
--        :bytes bigint or null: the page ends when its payloads have this size
-- out:   rows in the order of the names, with the columns of find_timers; then one row without a timer, with only the
--          page:
--        timer_key bigint, state text, tenant_id text, name text, timer_type text, process_instance_key bigint,
--          element_instance_key bigint, target_element_id text, due_date timestamptz, created_at timestamptz,
--          changed_at timestamptz, resume_at timestamptz, schedule text, zone text, missed text, occurrence bigint,
--          target text, payload text, ended_at timestamptz, holder bigint, detail text
--        page text: the timer's name; in the row without a timer the last name that was read, or null if the tenant has
--          no more names
-- locks: nothing
-- index: timers_by_name_prefix, :names_max names, and at most 20 probes for each row of the page
with named as materialized (
    select t.name, row_number() over (order by t.name using ~<~) as place
    from shardclock.timers t
    where t.tenant_id = :tenant_id and t.name ~>~ :after
    order by t.name using ~<~
    limit :names_max::integer
),
matching as materialized (
    -- Read the timers of the first matching names only, because a common text may match very many names.
    select n.name, n.place
    from named n
    where position(lower(:name_contains::text) in lower(n.name)) > 0
    order by n.place
    limit 20 * :page_size::integer
),
found as materialized (
    select
        t.*,
        sum(case when :bytes::bigint is null then 0 else octet_length(t.payload::text) end) over (
            order by t.name using ~<~ rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from matching m
    cross join lateral (
        select t.* from shardclock.timers t where t.tenant_id = :tenant_id and t.name = m.name limit 1
    ) t
    where (:state::text = 'PAUSED') = (t.paused_due_date is not null)
        and (:due_from::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= :due_from)
        and (:due_before::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < :due_before)
        and (:process_instance_key::bigint is null or t.process_instance_key = :process_instance_key)
        and (:target::text is null or t.target = :target)
        and (not :only_schedules::boolean or t.schedule is not null)
        and (:changed_from::timestamptz is null or t.changed_at >= :changed_from)
        and (:changed_before::timestamptz is null or t.changed_at < :changed_before)
    order by t.name using ~<~
    limit :page_size
)
(
    select
        f.timer_key, :state as state, f.tenant_id, f.name, f.timer_type, f.process_instance_key, f.element_instance_key,
        f.target_element_id, coalesce(f.paused_due_date, f.due_date) as due_date, f.created_at, f.changed_at, f.resume_at,
        f.schedule, coalesce(f.zone, 'UTC') as zone, coalesce(f.missed, 'fire_once') as missed, f.occurrence, f.target,
        f.payload::text as payload, null::timestamptz as ended_at, f.claimed_by as holder, null::text as detail,
        f.name as page
    from found f
    where :bytes is null or coalesce(f.bytes_before, 0) < :bytes
    order by f.name using ~<~
)
union all
select
    null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
    null, null,
    case
        when (select count(*) from matching) = 20 * :page_size
            then (select m.name from matching m order by m.place desc limit 1)
        else (select n.name from named n where n.place = :names_max)
    end

-- Reads the command log after a position, up to the horizon, below which no new record can appear.
--
-- in:    :asked text, a JSON object of after (the position of the last record that was read), page_size, partition,
--        partitions (partition 0 of 1 is the whole log), horizon (one that was read before; without it, it is read now),
--        and bytes: after so many of payloads no other record follows
-- out:   answer text, a JSON array of records, in the order of position: of each an array of position, recorded_at,
--        intent, timer_key, tenant_id, name, timer_type, process_instance_key, element_instance_key, target_element_id,
--        due_date, created_at, schedule, occurrence, target, payload, holder, detail; moments are in UTC
-- locks: nothing
-- index: command_log_in_order of each partition
select coalesce(
    json_agg(
        json_build_array(
            l.position, to_json(l.recorded_at at time zone 'UTC'), l.intent, l.timer_key, l.tenant_id, l.name,
            l.timer_type, l.process_instance_key, l.element_instance_key, l.target_element_id,
            to_json(l.due_date at time zone 'UTC'), to_json(l.created_at at time zone 'UTC'), l.schedule, l.occurrence,
            l.target, l.payload::text, l.holder, l.detail::text
        )
        order by l.position
    ),
    '[]'
)::text as answer
from (
    select
        r.*,
        a.bytes,
        sum(case when a.bytes is null then 0 else octet_length(r.payload::text) end) over (
            order by r.position rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select
            (j.asked ->> 'after')::bigint as after,
            (j.asked ->> 'page_size')::integer as page_size,
            (j.asked ->> 'partition')::integer as partition,
            (j.asked ->> 'partitions')::integer as partitions,
            (j.asked ->> 'horizon')::bigint as horizon,
            (j.asked ->> 'bytes')::bigint as bytes
        from (select cast(:asked as text)::jsonb as asked) j
    ) a
    cross join lateral shardclock.read_log(a.after, a.page_size, a.partition, a.partitions, a.horizon) r
) l
where l.bytes is null or coalesce(l.bytes_before, 0) < l.bytes

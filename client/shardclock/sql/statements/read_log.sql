-- Reads the command log after a position, up to the horizon, below which no new record can appear.
--
-- in:    :asked text, a JSON object of after (the position of the last read record), page_size, partition,
--        partitions (partition 0 of 1 is the whole log), horizon (from an earlier read; by default the present
--        horizon), and bytes (the page ends with the record that brings its size to this number)
-- out:   answer text, a JSON object of records, an array in the order of position; each record is an array of position,
--        recorded_at, intent, timer_key, tenant_id, name, timer_type, process_instance_key, element_instance_key,
--        target_element_id, due_date, created_at, schedule, occurrence, target, payload, holder, detail, with moments in
--        UTC; and of is_full: page_size or bytes was reached
-- locks: nothing
-- index: command_log_in_order of each partition
select shardclock.read_log_page(
    (j.asked ->> 'after')::bigint,
    (j.asked ->> 'page_size')::integer,
    (j.asked ->> 'partition')::integer,
    (j.asked ->> 'partitions')::integer,
    (j.asked ->> 'horizon')::bigint,
    (j.asked ->> 'bytes')::bigint
)::text as answer
from (select cast(:asked as text)::jsonb as asked) j

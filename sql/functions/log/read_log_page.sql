-- Reads records like read_log, as JSON of a limited size.
--
-- The function builds the records one by one, so that it reads no payloads beyond the limit.
--
-- in:    after bigint, page_size integer, partition integer, partitions integer, horizon bigint, bytes bigint
-- out:   json
-- locks: nothing
-- index: command_log_in_order of each partition
create or replace function shardclock.read_log_page(
    after bigint, page_size integer, partition integer, partitions integer, horizon bigint, bytes bigint
)
returns json
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
    l record;
    found_record json;
    records json[] := '{}';
    left_bytes bigint := read_log_page.bytes;
begin
    for l in
        select r.*
        from shardclock.read_log(
            read_log_page.after, read_log_page.page_size, read_log_page.partition, read_log_page.partitions,
            read_log_page.horizon
        ) r
    loop
        found_record := json_build_array(
            l.position, to_json(l.recorded_at at time zone 'UTC'), l.intent, l.timer_key, l.tenant_id, l.name,
            l.timer_type, l.process_instance_key, l.element_instance_key, l.target_element_id,
            to_json(l.due_date at time zone 'UTC'), to_json(l.created_at at time zone 'UTC'), l.schedule, l.occurrence,
            l.target, l.payload::text, l.holder, l.detail::text
        );
        records := records || found_record;
        left_bytes := left_bytes - pg_column_size(found_record);
        exit when left_bytes <= 0;
    end loop;
    return json_build_object(
        'records', records,
        'is_full', left_bytes <= 0 or cardinality(records) = read_log_page.page_size
    );
end
$$;

comment on function shardclock.read_log_page is
    'Internal: Reads records like read_log, at least one, until the JSON has `bytes` bytes. The function returns an object: records (an array of arrays), and is_full (whether a limit has ended the read).';

-- The version of a process, as `d`, from which the delivery `start` begins an instance.
cross join lateral (
    select d.process_id, d.version
    from shardclock.definitions d
    -- Accept any payload: a client may have written it by SQL, and one invalid start must not make the whole list fail.
    where d.definition_key
        = case when start.payload ->> 'definition' ~ '^[0-9]{1,18}$' then (start.payload ->> 'definition')::bigint end
    limit 1
) d

-- Lists the records that were set aside for a consumer group, newest first.
--
-- in:    :group_name text, :page_size integer
-- out:   position bigint, timer_key bigint, intent text, set_aside_at timestamptz, attempts integer,
--        error text or null, record text (JSON: the whole record)
-- locks: nothing
-- index: records_aside_pkey, backwards
select
    a.position, (a.record ->> 'timer_key')::bigint as timer_key, a.record ->> 'intent' as intent, a.set_aside_at,
    a.attempts, a.error, a.record::text as record
from shardclock.records_aside a
where a.group_name = :group_name
order by a.position desc
limit :page_size::integer

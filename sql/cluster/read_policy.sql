-- Reads a role's policy, the number of its living keepers, and the number of records written to the log so far.
--
-- in:    :role text
-- out:   one row: wanted integer, wanted_min integer and wanted_max integer (nulls: no policy), target_per_s integer,
--        alive bigint, log_records bigint, is_set boolean (an operator has set wanted)
-- locks: nothing
-- index: none, the tables are small
select
    s.wanted,
    s.wanted_min,
    s.wanted_max,
    s.target_per_s,
    (
        select count(*) from shardclock.presence h
        where h.role = s.role and h.part is not null and h.alive
    ) as alive,
    (select case when q.is_called then q.last_value else 0 end from shardclock.position_seq q) as log_records,
    s.set_at is not null as is_set
from shardclock.scale s
where s.role = :role

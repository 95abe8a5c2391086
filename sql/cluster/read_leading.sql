-- Reads the cluster that leads, or that hand_over.sql has just named as the next leading cluster.
--
-- in:    nothing
-- out:   cluster_id text, term bigint; no row if no cluster leads
-- locks: nothing
-- index: leadership_pkey, newest first
select newest.cluster_id, newest.term
from (
    select c.cluster_id, c.lease_until, c.term
    from shardclock.leadership c
    order by c.renewed_at desc
    limit 1
) newest
where newest.lease_until > clock_timestamp()

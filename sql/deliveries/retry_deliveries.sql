-- Makes the next attempts of many deliveries due now.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint, of those that are due now, and were not before
-- locks: the deliveries; leaves out those that others have locked
-- index: deliveries_pkey
select r.timer_key from shardclock.retry_deliveries(:timer_keys::bigint[]) as r (timer_key)

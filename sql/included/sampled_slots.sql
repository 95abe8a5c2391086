-- The slots to count: all slots, or a sample if the first slots have many timers.
sample as materialized (
    -- All keys come from the same sequence, so all slots have about the same number of timers. But if a client
    -- schedules several timers together, due dates may alternate between consecutive keys. A sample of the even slots,
    -- for example, would then miss half of these due dates. Therefore the strides and 840 have no common factor.
    select * from (
        values (0, 1, 1, 840), (2000, 14, 13, 60), (20000, 84, 89, 10)
    ) as tier (probed, weight, stride, slots)
    where tier.probed <= (select probe.timers from probe)
    order by tier.probed desc
    limit 1
),

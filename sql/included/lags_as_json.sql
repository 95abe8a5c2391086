-- The lags, as an array of [target, timer_type, 'ahead' or 'late', how many edges the lag is within, timers, sum of their
-- lags in seconds].
(
    select jsonb_agg(jsonb_build_array(l.target, l.timer_type, l.asked, l.within, l.timers, l.sum_s))::text
    from lags l
) as lags,

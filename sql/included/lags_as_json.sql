-- Returns the lags as an array. Each element is [target, timer_type, 'ahead' or 'late', the number of edges above the
-- lag, the number of timers, the sum of their lags in seconds].
(
    select jsonb_agg(jsonb_build_array(l.target, l.timer_type, l.asked, l.within, l.timers, l.sum_s))::text
    from lags l
) as lags,

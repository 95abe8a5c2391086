-- Returns the lags, as an array of [target, timer_type, 'ahead' or 'late', the number of edges that are above the lag,
-- timers, sum of the timers' lags in seconds].
(
    select jsonb_agg(jsonb_build_array(l.target, l.timer_type, l.asked, l.within, l.timers, l.sum_s))::text
    from lags l
) as lags,

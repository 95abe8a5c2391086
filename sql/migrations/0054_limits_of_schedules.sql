-- 0054_limits_of_schedules
select;

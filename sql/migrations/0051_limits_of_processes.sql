-- 0051_limits_of_processes
select;

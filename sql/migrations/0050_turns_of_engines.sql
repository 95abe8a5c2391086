-- 0050_turns_of_engines
select;

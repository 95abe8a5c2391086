-- 0055_reasons
select;

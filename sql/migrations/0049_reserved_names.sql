-- 0049_reserved_names
select;

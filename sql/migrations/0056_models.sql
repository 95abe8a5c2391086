-- 0056_models
select;

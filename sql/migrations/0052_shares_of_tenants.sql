-- 0052_shares_of_tenants
select;

-- compatible-with: 3
--
-- Which cluster this is. A worker keeps it with what it has not delivered, and does not deliver it to another one.
insert into drover.setting (name, value) values ('clusterId', to_json(gen_random_uuid()));

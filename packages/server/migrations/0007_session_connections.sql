-- compatible-with: 3
--
-- Which connection of its worker a session was taken with. A worker numbers its connections, so that a hello that
-- was late in the network cannot take the session back from a newer connection.
alter table drover.session add column connection int not null default 0;

/**
 * What the database is asked to note by itself: every grant, every ending and every worker given up. Notes are in
 * the transaction of the change, so they exist if and only if it does. The guard of moves refuses what the
 * table of moves does not list.
 */
import type pg from 'pg';
import { guardMoves } from '../../packages/server/test/support/guard-moves.js';

export async function installAudit(pool: pg.Pool): Promise<void> {
  await guardMoves(pool);
  await pool.query(`
    create schema chaos;
    create table chaos.granted (
      seq bigserial, id uuid, fence int, attempt int, session_id uuid, transaction xid8 default pg_current_xact_id()
    );
    create index on chaos.granted (id);
    create table chaos.ended (seq bigserial, id uuid, fence int, attempt int, state text);
    create table chaos.given_up (seq bigserial, session_id uuid, name text, pid int, server text);
    -- the last server of each session, also when its connection has been lost since
    create table chaos.served (session_id uuid primary key, server text);

    create function chaos.note_grant() returns trigger language plpgsql as $$ begin
      insert into chaos.granted (id, fence, attempt, session_id) values (new.id, new.fence, new.attempt, new.session_id);
      return null;
    end $$;
    create trigger chaos_grant_inserted after insert on drover.job
      for each row when (new.state = 'running') execute function chaos.note_grant();
    create trigger chaos_grant after update on drover.job
      for each row when (new.state = 'running' and old.state <> 'running') execute function chaos.note_grant();

    -- A repeated enqueue takes its own copy back when the first one has finished. That grant was never committed, so
    -- it may have any fence; should it be run nevertheless, the checker finds an execution without a grant.
    create function chaos.forget_grant() returns trigger language plpgsql as $$ begin
      delete from chaos.granted where id = old.id and fence = old.fence and transaction = pg_current_xact_id();
      return null;
    end $$;
    create trigger chaos_forget_grant after delete on drover.job
      for each row when (old.created_at = now()) execute function chaos.forget_grant();

    create function chaos.note_end() returns trigger language plpgsql as $$ begin
      insert into chaos.ended (id, fence, attempt, state) values (new.id, new.fence, new.attempt, new.state);
      return null;
    end $$;
    create trigger chaos_end after insert on drover.job_history for each row execute function chaos.note_end();

    create function chaos.note_server() returns trigger language plpgsql as $$ begin
      insert into chaos.served values (new.id, (select address from drover.server where id = new.server_id))
      on conflict (session_id) do update set server = excluded.server;
      return null;
    end $$;
    create trigger chaos_served_first after insert on drover.session
      for each row execute function chaos.note_server();
    create trigger chaos_served after update on drover.session
      for each row when (new.server_id is not null and new.server_id is distinct from old.server_id)
      execute function chaos.note_server();

    create function chaos.note_given_up() returns trigger language plpgsql as $$ begin
      insert into chaos.given_up (session_id, name, pid, server)
      values (new.id, new.name, new.pid, (select server from chaos.served where session_id = new.id));
      return null;
    end $$;
    create trigger chaos_given_up after update on drover.session
      for each row when (new.ending = 'dead' and old.ending is null) execute function chaos.note_given_up();`);
}

/**
 * Triggers by which the database records every grant, every ending, every session declared dead and every repair. A
 * record is in the transaction of the change, so it exists if and only if the change does. The guard of moves refuses
 * what the table of moves does not list.
 */
import type pg from 'pg';
import { guardMoves } from '../../../packages/server/test/support/guard-moves.js';

/** One grant of a job to a worker. */
export type Grant = {
  id: string;
  fence: number;
  attempt: number;
  sessionId: string;
  /** Name and process id of the worker. */
  unit: string;
  pid: number;
};
/** By job, in order. */
export type Grants = ReadonlyMap<string, readonly Grant[]>;

export async function installAudit(pool: pg.Pool): Promise<void> {
  await guardMoves(pool);
  await pool.query(`
    create schema chaos;
    create table chaos.granted (
      seq bigserial, id uuid, fence int, attempt int, session_id uuid, transaction xid8 default pg_current_xact_id()
    );
    create index on chaos.granted (id);
    create table chaos.ended (seq bigserial, id uuid, state text);
    create table chaos.verdict (
      seq bigserial, session_id uuid, name text, pid int, server text, is_takeover boolean
    );
    create table chaos.repaired (seq bigserial, kind text, count bigint, address inet default inet_client_addr());
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
    -- it may have any fence; if it is run nevertheless, S3g finds an execution without a grant.
    create function chaos.forget_grant() returns trigger language plpgsql as $$ begin
      delete from chaos.granted where id = old.id and fence = old.fence and transaction = pg_current_xact_id();
      return null;
    end $$;
    create trigger chaos_forget_grant after delete on drover.job
      for each row when (old.created_at = now()) execute function chaos.forget_grant();

    create function chaos.note_end() returns trigger language plpgsql as $$ begin
      insert into chaos.ended (id, state) values (new.id, new.state);
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

    create function chaos.note_verdict() returns trigger language plpgsql as $$ begin
      insert into chaos.verdict (session_id, name, pid, server, is_takeover)
      -- before its lease was over only a successor may say so
      values (
        new.id, new.name, new.pid, (select server from chaos.served where session_id = new.id), old.expires_at >= now()
      );
      return null;
    end $$;
    create trigger chaos_verdict after update on drover.session
      for each row when (new.ending = 'dead' and old.ending is null) execute function chaos.note_verdict();

    create function chaos.note_repair() returns trigger language plpgsql as $$ begin
      insert into chaos.repaired (kind, count)
      values (new.kind, new.count - case when tg_op = 'UPDATE' then old.count else 0 end);
      return null;
    end $$;
    create trigger chaos_repair after insert or update on drover.repair
      for each row execute function chaos.note_repair();`);
}

export async function readGrants(pool: pg.Pool): Promise<Grants> {
  const { rows } = await pool.query<Grant>(
    `select g.id::text, g.fence, g.attempt, g.session_id::text as "sessionId", s.name as unit, s.pid
     from chaos.granted g
     left join drover.session s on s.id = g.session_id
     order by g.id, g.seq`,
  );
  const grants = new Map<string, Grant[]>();
  for (const grant of rows) {
    const list = grants.get(grant.id);
    if (list) list.push(grant);
    else grants.set(grant.id, [grant]);
  }
  return grants;
}

export async function readEndings(pool: pg.Pool): Promise<Map<string, string[]>> {
  const { rows } = await pool.query<{ id: string; states: string[] }>(
    'select id::text, array_agg(state order by seq) as states from chaos.ended group by id',
  );
  return new Map(rows.map(({ id, states }) => [id, states]));
}

/**
 * A trigger, made from the table of moves, that refuses every change of state that is not listed there, and counters that
 * cannot be. Every test database has it (global-setup): there it turns a wrong statement into a failing test.
 */
import { MOVES } from '@drover/protocol';
import type pg from 'pg';

const COMPLAINTS = {
  move: 'illegal move of job',
  fence: 'the fence of job',
  counters: 'impossible counters of job',
};
/** Matches every message of the guard, also inside the log of a server. */
export const GUARD_COMPLAINT = new RegExp(Object.values(COMPLAINTS).join('|'));

const legal = Object.values(MOVES).flatMap(({ from, to }) =>
  from.flatMap((before) => to.map((after) => `${before}>${after}`)),
);
/** A finished job that a person retries is inserted again. */
const insertable = [...new Set([...MOVES.enqueue.to, ...MOVES.retry.to])];

/** Does no harm to a database that has the guard already. */
export async function guardMoves(database: { query(text: string): Promise<unknown> }): Promise<void> {
  await database.query(`
    create schema if not exists drover_guard;
    -- a sequence, because what it has counted outlives the rollback of the refused statement
    create sequence if not exists drover_guard.refused;
    create or replace function drover_guard.refuse(complaint text) returns void language plpgsql as $$
    begin
      perform nextval('drover_guard.refused');
      raise exception '%', complaint;
    end $$;
    create or replace function drover_guard.refuse_illegal_move() returns trigger language plpgsql as $$
    declare ending text;
    begin
      -- a check of the table would cost every statement that adds or moves jobs (decision 0020)
      if tg_op <> 'DELETE' and (
        new.attempt < 0 or new.fence < new.attempt or new.max_attempts < 1 or new.lost_attempts < 0
      ) then
        perform drover_guard.refuse(format('${COMPLAINTS.counters} %s: %s', new.id, row_to_json(new)));
      end if;
      if tg_op = 'INSERT' then
        if new.state::text <> all('{${insertable.join(',')}}'::text[]) then
          perform drover_guard.refuse(format('${COMPLAINTS.move} %s: new -> %s', new.id, new.state));
        end if;
      elsif tg_op = 'UPDATE' then
        if new.fence < old.fence or (new.state = 'running' and old.state <> 'running' and new.fence <= old.fence) then
          perform drover_guard.refuse(format('${COMPLAINTS.fence} %s went from %s to %s', new.id, old.fence, new.fence));
        end if;
        if old.state <> new.state and old.state::text || '>' || new.state::text <> all('{${legal.join(',')}}'::text[]) then
          perform drover_guard.refuse(format('${COMPLAINTS.move} %s: %s -> %s', new.id, old.state, new.state));
        end if;
      else
        select h.state into ending from drover.job_history h where h.id = old.id;
        if ending is null or old.state::text || '>' || ending <> all('{${legal.join(',')}}'::text[]) then
          -- a repeated enqueue takes its own copy back when the first one has finished
          if ending is not null and old.state in ('ready', 'scheduled', 'running') and old.created_at = now() then
            return null;
          end if;
          perform drover_guard.refuse(format('${COMPLAINTS.move} %s: %s -> %s', old.id, old.state, coalesce(ending, 'nowhere')));
        end if;
      end if;
      return null;
    end $$;
    create or replace trigger refuse_illegal_move after insert or update or delete on drover.job
    for each row when (current_setting('drover_guard.is_off', true) is distinct from 'true')
    execute function drover_guard.refuse_illegal_move()`);
}

/** How many statements the guard has refused since the last call, including those whose failure was not noticed. */
export async function takeRefused(pool: pg.Pool): Promise<number> {
  const { rows } = await pool.query(
    'select case when is_called then last_value else 0 end::int as refused from drover_guard.refused',
  );
  await pool.query(`select setval('drover_guard.refused', 1, false)`);
  return rows[0].refused;
}

/** For the end of a test: a server may have tried a refused statement again, so that no assertion has noticed it. */
export async function checkNothingRefused(pool: pg.Pool): Promise<void> {
  const refused = await takeRefused(pool);
  if (refused > 0) throw new Error(`the guard of moves refused ${refused} statements of this database`);
}

/** One statement of a test that writes rows as no verb does: the guard is off in its transaction, and only there. */
export async function writeUnguarded(pool: pg.Pool, text: string, values: unknown[] = []): Promise<pg.QueryResult> {
  const client = await pool.connect();
  try {
    await client.query(`begin; set local drover_guard.is_off = 'true'`);
    const result = await client.query(text, values);
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  } finally {
    client.release();
  }
}

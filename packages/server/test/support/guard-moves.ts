/**
 * A trigger, made from the table of moves, that refuses every change of state that is not listed there, and counters that
 * cannot be. Only test databases have it: there it turns a wrong statement into a failing test.
 */
import { MOVES } from '@drover/protocol';
import type pg from 'pg';

const legal = Object.values(MOVES).flatMap(({ from, to }) =>
  from.flatMap((before) => to.map((after) => [before, after])),
);
/** The history's rows that come back by hand are inserted anew. */
const insertable = [...new Set([...MOVES.enqueue.to, ...MOVES.retry.to])];

export async function guardMoves(pool: pg.Pool): Promise<void> {
  await pool.query('create table drover.legal_move (before text, after text, primary key (before, after))');
  await pool.query(
    `insert into drover.legal_move select * from json_to_recordset($1) as m(before text, after text) on conflict do nothing`,
    [JSON.stringify(legal.map(([before, after]) => ({ before, after })))],
  );
  await pool.query(`
    create function drover.refuse_illegal_move() returns trigger language plpgsql as $$
    declare ending text;
    begin
      -- a check of the table would cost every statement that adds or moves jobs (decision 0020)
      if tg_op <> 'DELETE' and (
        new.attempt < 0 or new.fence < new.attempt or new.max_attempts < 1 or new.lost_attempts < 0
      ) then
        raise exception 'impossible counters of job %: %', new.id, row_to_json(new);
      end if;
      if tg_op = 'INSERT' then
        if new.state::text <> all('{${insertable.join(',')}}'::text[]) then
          raise exception 'illegal move of job %: new -> %', new.id, new.state;
        end if;
      elsif tg_op = 'UPDATE' then
        if new.fence < old.fence or (new.state = 'running' and old.state <> 'running' and new.fence <= old.fence) then
          raise exception 'the fence of job % went from % to %', new.id, old.fence, new.fence;
        end if;
        if old.state <> new.state and not exists (
          select from drover.legal_move where before = old.state::text and after = new.state::text
        ) then
          raise exception 'illegal move of job %: % -> %', new.id, old.state, new.state;
        end if;
      else
        select h.state into ending from drover.job_history h where h.id = old.id;
        if ending is null or not exists (
          select from drover.legal_move where before = old.state::text and after = ending
        ) then
          -- a repeated enqueue takes its own copy back when the first one has finished
          if ending is not null and old.state in ('ready', 'scheduled', 'running') and old.created_at = now() then
            return null;
          end if;
          raise exception 'illegal move of job %: % -> %', old.id, old.state, coalesce(ending, 'nowhere');
        end if;
      end if;
      return null;
    end $$;
    create trigger refuse_illegal_move after insert or update or delete on drover.job
    for each row execute function drover.refuse_illegal_move()`);
}

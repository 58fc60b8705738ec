/**
 * Breaks the real system from outside, so that a rule must fail: each control has the effect of a possible bug of
 * ours. Two kinds are elsewhere: units.ts removes journals, and starts processes with fencing, self-stop or beacon
 * switched off.
 */
import type pg from 'pg';
import type { Control } from './options.js';

/** Share of the rows that a control may change. */
const SHARE = 0.01;

const SABOTAGE: Partial<Record<Control, string>> = {
  // an insert that is acknowledged and was never executed
  'durable-insert': `
    create function chaos.drop_insert() returns trigger language plpgsql as $$ begin
      if random() < ${SHARE} then return null; end if;
      return new;
    end $$;
    create trigger chaos_drop_insert before insert on drover.job
      for each row when (new.type = 'noop') execute function chaos.drop_insert();`,
  // a finished job stays in the queue, and so runs and ends again
  'one-ending': `
    create function chaos.keep_ended() returns trigger language plpgsql as $$ begin
      if random() < ${SHARE} and (select count(*) from chaos.ended where id = new.id) < 2 then
        insert into drover.job (id, queue, type, payload, fence, attempt, max_attempts, created_at)
        values (new.id, new.queue, new.type, new.payload, new.fence, new.attempt, new.max_attempts, new.created_at);
      end if;
      return null;
    end $$;
    create trigger keep_ended after insert on drover.job_history
      for each row when (new.type = 'noop' and new.state = 'succeeded') execute function chaos.keep_ended();`,
  // a parent's children are kept although the parent failed
  'atomic-children': `
    create function chaos.keep_children() returns trigger language plpgsql as $$ begin
      insert into drover.job (id, queue, type, payload, parent_id)
      values (drover.new_id(), new.queue, 'child', '{}', new.id);
      return null;
    end $$;
    create trigger keep_children after insert on drover.job_history
      for each row when (new.type = 'broken-parent' and new.state = 'failed') execute function chaos.keep_children();`,
};

/** Controls that do harm by themselves, without a fault of the plan. */
export function needsNoFault(control: Control): boolean {
  return SABOTAGE[control] !== undefined;
}

export async function installControls(pool: pg.Pool, without: readonly Control[]): Promise<void> {
  for (const control of without) {
    const sabotage = SABOTAGE[control];
    if (sabotage !== undefined) await pool.query(sabotage);
  }
}

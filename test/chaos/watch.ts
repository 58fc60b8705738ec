/** Records, during the run, when the database first showed a dead worker or a repair. */
import type pg from 'pg';
import { nowMs } from './clock.js';
import type { Repair, Verdict } from './evidence/evidence.js';

const EVERY_MS = 250;

export type Watch = {
  readonly verdicts: readonly Verdict[];
  readonly repairs: readonly Repair[];
  /** Reads one last time. */
  finish(): Promise<void>;
  stop(): void;
};

export function startWatch(pool: pg.Pool): Watch {
  const verdicts: Verdict[] = [];
  const repairs: Repair[] = [];
  const seen = { verdict: 0, repair: 0 };
  let reading: Promise<void> | undefined;

  async function read(): Promise<void> {
    const found = await pool.query<Omit<Verdict, 'seenAt'> & { seq: string }>(
      `select seq, session_id::text as "sessionId", name as unit, pid, server, is_takeover as "isTakeover"
       from chaos.verdict where seq > $1 order by seq`,
      [seen.verdict],
    );
    for (const { seq, ...verdict } of found.rows) {
      seen.verdict = Number(seq);
      verdicts.push({ ...verdict, seenAt: nowMs() });
    }
    const repaired = await pool.query<Omit<Repair, 'seenAt'> & { seq: string }>(
      'select seq, kind, count::int, host(address) as address from chaos.repaired where seq > $1 order by seq',
      [seen.repair],
    );
    for (const { seq, ...repair } of repaired.rows) {
      seen.repair = Number(seq);
      repairs.push({ ...repair, seenAt: nowMs() });
    }
  }

  const timer = setInterval(() => {
    // the database may be unavailable; the next read finds what this one has missed
    reading ??= read()
      .catch(() => {})
      .finally(() => {
        reading = undefined;
      });
  }, EVERY_MS);
  return {
    verdicts,
    repairs,
    async finish() {
      clearInterval(timer);
      await reading;
      await read();
    },
    stop: () => clearInterval(timer),
  };
}

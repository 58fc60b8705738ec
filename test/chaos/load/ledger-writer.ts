/** Records the result of each request on a disk that no fault of the run affects. */
import { createHash } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import { nowMs } from '../clock.js';
import type { Action, AddedJob, Mark } from '../evidence/ledger.js';
import type { PlannedJob } from './mix.js';

export type LedgerWriter = {
  added(jobs: readonly PlannedJob[], mark: Mark, via: AddedJob['via'], sentAt: number): void;
  /** Calls `act` and records its answer or the code of its error. Never rejects. */
  act(kind: Action['kind'], target: string, act: () => Promise<string>): Promise<Action>;
};

export function createLedgerWriter(path: string): LedgerWriter {
  const file = openSync(path, 'a');
  const write = (entries: readonly (AddedJob | Action)[]) =>
    writeSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
  return {
    added(jobs, mark, via, sentAt) {
      const answeredAt = nowMs();
      write(
        jobs.map(({ payload, ...job }) => {
          const payloadHash = createHash('md5').update(JSON.stringify(payload)).digest('hex');
          return { kind: 'job', ...job, mark, via, payloadHash, sentAt, answeredAt };
        }),
      );
    },
    async act(kind, target, act) {
      const sentAt = nowMs();
      const answer = await act().then(
        (text) => ({ ok: true, answer: text }),
        (error: Error & { code?: string }) => ({ ok: false, answer: error.code ?? error.name }),
      );
      const action: Action = { kind, target, sentAt, answeredAt: nowMs(), ...answer };
      write([action]);
      return action;
    },
  };
}

import { pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import { DatabaseError } from '../../src/db/database-error.js';
import { createOutageLog, type OutageLog } from '../../src/telemetry/outage-log.js';

const MINUTE = 60_000;
const gone = new DatabaseError('unavailable', 'connection refused');

let lines: { level: number; event: string; forMs?: number; failures?: number }[];
let now: number;
let log: OutageLog;
beforeEach(() => {
  lines = [];
  now = 1000;
  const logger = pino({ level: 'debug' }, { write: (line) => lines.push(JSON.parse(line)) });
  log = createOutageLog(logger, () => now);
});

const told = () => lines.map(({ event, forMs, failures }) => [event, forMs, failures]);

describe('an outage of the database', () => {
  it('is one line at its begin, one a minute, and one at its end', () => {
    log.answered();
    for (; now <= 1000 + 2.5 * MINUTE; now += 100) log.failed(gone);
    for (; now <= 1000 + 2.7 * MINUTE; now += 100) log.answered();
    expect(told()).toEqual([
      ['database.unavailable', 0, 1],
      ['database.unavailable', MINUTE, 601],
      ['database.unavailable', 2 * MINUTE, 1201],
      ['database.available', 2.5 * MINUTE, 1501],
    ]);
  });

  it('is not over while statements still fail now and then', () => {
    for (let round = 0; round < 20; round++) {
      log.failed(gone);
      now += 1000;
      log.answered();
    }
    expect(told()).toEqual([['database.unavailable', 0, 1]]);
  });

  it('is not a statement that the database has refused', () => {
    log.failed(new DatabaseError('refused', 'division by zero', '22012'));
    expect(lines).toEqual([]);
  });

  it('is told once: what the parts of the server say about it is at debug', () => {
    log.logger.error({ event: 'claim.failed', err: gone }, 'claiming failed');
    log.logger.warn({ event: 'duty.failed', err: new DatabaseError('refused', 'division by zero') }, 'beat failed');
    log.logger.warn({ event: 'worker.suspected' }, 'worker is quiet');
    expect(lines.map(({ level, event }) => [level, event])).toEqual([
      [20, 'claim.failed'],
      [40, 'duty.failed'],
      [40, 'worker.suspected'],
    ]);
  });
});

/** Every rule of the fault suite passes on a good run and fails on one with a planted fault. */
import { describe, expect, test } from 'vitest';
import { grantKey } from '../evidence/journals.js';
import type { ServerHealth } from '../hostile/hostile.js';
import { checkRules, RULES } from './index.js';
import { declareDead, emptyRun, goodRun, killWorker, type Made, WALL_MS } from './support/made-run.js';

function redCodes(made: Made): string[] {
  return checkRules(made.evidence())
    .filter(({ violated }) => violated > 0)
    .map(({ code }) => code);
}

/** A hostile peer beside the run. */
function attack(made: Made, health: Partial<ServerHealth> = {}, rounds = 5): void {
  const server = { server: 'server1', peakBytes: 300 * 1024 ** 2, loopP99Ms: 20, ...health };
  made.assault = { attacks: { frames: rounds }, servers: [server] };
}

type Plant = [code: string, what: string, plant: (made: Made) => unknown];

const PLANTS: Plant[] = [
  ['H1', 'a server took 2 GiB', (made) => attack(made, { peakBytes: 2 * 1024 ** 3 })],
  ['H1', 'a server was not measured', (made) => attack(made, { peakBytes: 0 })],
  ['H2', 'an event loop was blocked', (made) => attack(made, { loopP99Ms: 900 })],
  ['H3', 'an attack never ran', (made) => attack(made, {}, 0)],
  [
    'S1',
    'an acknowledged job is gone',
    (made) => Object.assign(made, { jobs: made.jobs.filter(({ id }) => id !== 'waited') }),
  ],
  [
    'S1f',
    'a refused job exists',
    (made) => made.add({ id: 'refused', sent: { mark: 'refused' }, runs: [{ on: made.worker1, from: 1 }] }),
  ],
  ['S1o', 'a payload was changed in the row', (made) => Object.assign(made.job('plain'), { payloadHash: 'another' })],
  [
    'S1o',
    'the priority was lost',
    (made) => made.add({ id: 'first', sent: { priority: 5 }, runs: [{ on: made.worker1, from: 1 }] }),
  ],
  [
    'S1o',
    'a handler got another payload',
    (made) => Object.assign(made.runs('plain')[0] ?? {}, { payloadHash: 'another' }),
  ],
  [
    ...(['S2', 'the second execution begins before the first ends'] as const),
    (made) => Object.assign(made.runs('lost')[1] ?? {}, { from: 500 }),
  ],
  [
    ...(['S2', 'an overlap long after a pause'] as const),
    (made) => {
      const paused = { ...made.worker2, exitedAt: undefined, pauses: [{ from: 200, to: 5000 }] };
      Object.assign(made.runs('lost')[0] ?? {}, { instance: paused, to: 9000 });
    },
  ],
  [
    ...(['S2r', 'a job that had ended well in a healthy process runs again'] as const),
    (made) =>
      made.add({
        id: 'again',
        runs: [
          { on: made.worker1, from: 100 },
          { on: made.worker1, from: 500 },
        ],
      }),
  ],
  [
    ...(['S2r', 'a cancelled execution runs again'] as const),
    (made) => {
      const runs = [
        { on: made.worker1, from: 100, end: 'abort:cancelled' as const },
        { on: made.worker1, from: 500 },
      ];
      made.add({ id: 'again', runs });
    },
  ],
  [
    ...(['S2r', 'a job of a process that left in good order runs again'] as const),
    (made) => {
      made.worker1.exitedAt = 400;
      made.worker1.ending = 'code 0';
      made.add({
        id: 'again',
        runs: [
          { on: made.worker1, from: 100, end: undefined },
          { on: made.worker2, from: 500 },
        ],
      });
    },
  ],
  [
    ...(['S2h', 'a held job that died with its worker runs again'] as const),
    (made) => {
      const runs = [
        { on: made.worker2, from: 100, to: 1000, end: undefined },
        { on: made.worker1, from: 6000 },
      ];
      made.add({ id: 'again', type: 'hold', sent: { holds: true }, runs });
    },
  ],
  [
    'S3',
    'a fence is repeated',
    (made) =>
      made.grants.set(
        'lost',
        (made.grants.get('lost') ?? []).map((grant) => ({ ...grant, fence: 1 })),
      ),
  ],
  [
    'S3g',
    'the grant was for another process',
    (made) => Object.assign(made.grants.get('plain')?.[0] ?? {}, { pid: 999 }),
  ],
  [
    ...(['S3g', 'one grant runs twice, with the same attempt number'] as const),
    (made) => {
      const stopped = { on: made.worker1, from: 100, fence: 1, attempt: 1, end: 'abort:shutdown' as const };
      made.add({ id: 'twice', runs: [stopped, { ...stopped, from: 500, end: 'ok' }] });
    },
  ],
  [
    ...(['S3r', 'the result of a released grant ends the job, with the attempt number of the next'] as const),
    (made) => {
      const runs = [
        { on: made.worker1, from: 100, fence: 1, attempt: 1, end: 'ok' as const },
        { on: made.worker2, from: 500, fence: 2, attempt: 1, end: undefined, to: 1000 },
      ];
      made.add({ id: 'stale', runs, row: { resultOf: 'worker1-1:stale:0' } });
    },
  ],
  [
    ...(['S3r', 'the error of an earlier grant ends the job'] as const),
    (made) => {
      const runs = [
        { on: made.worker1, from: 100, end: 'error' as const },
        { on: made.worker1, from: 500, end: 'error' as const },
      ];
      const row = { state: 'failed', errorCode: 'permanent', errorMessage: 'planned (execution worker1-1:stale:0)' };
      made.add({ id: 'stale', runs, row });
    },
  ],
  ['S4', 'a job exists twice', (made) => made.jobs.push({ ...made.job('plain') })],
  [
    'S4a',
    'more attempts than allowed',
    (made) => {
      const runs = Array.from({ length: 6 }, (_, index) => ({
        on: made.worker1,
        from: 100 * index,
        end: 'error' as const,
      }));
      made.add({ id: 'busy', runs, row: { state: 'failed', errorMessage: 'planned (execution worker1-1:busy:5)' } });
    },
  ],
  ['S4a', 'more losses than allowed', (made) => Object.assign(made.job('lost'), { lost: 4, attempt: 5 })],
  [
    'S4e',
    'something ran that is no job',
    (made) => Object.assign(made, { jobs: made.jobs.filter(({ id }) => id !== 'tick-1000') }),
  ],
  ['S4t', 'a job ended twice', (made) => made.endings.set('plain', ['succeeded', 'failed'])],
  ['S5', 'an occurrence is missing at the end', (made) => made.schedules[0]?.occurrences.pop()],
  [
    'S5',
    'an occurrence was skipped',
    (made) => Object.assign(made.schedules[0]?.occurrences[1] ?? {}, { state: 'skipped', jobId: null }),
  ],
  [
    'S5',
    'an occurrence fired two jobs',
    (made) => {
      const occurrence = `every-1000@${new Date(WALL_MS + 1000).toISOString()}`;
      made.add({
        id: 'second tick',
        type: 'tick',
        sent: null,
        row: { occurrence },
        runs: [{ on: made.worker1, from: 1100, occurrence }],
      });
    },
  ],
  [
    'S5',
    'an occurrence that must not be',
    (made) => made.schedules[0]?.occurrences.push({ nominalAt: WALL_MS + 1500, state: 'fired', jobId: 'plain' }),
  ],
  [
    'S6',
    'a child of a successful parent is missing',
    (made) => {
      made.jobs = made.jobs.filter(({ id }) => id !== 'child');
      made.executions.delete('child');
    },
  ],
  [
    'S6',
    'a child of a failed parent exists',
    (made) => {
      made.add({
        id: 'orphan',
        type: 'child',
        sent: null,
        row: { parentId: 'broken' },
        runs: [{ on: made.worker1, from: 500 }],
      });
    },
  ],
  [
    'S8',
    'an outcome in the journal was not delivered',
    (made) => Object.assign(made.job('journaled'), { state: 'unknown', resultOf: null }),
  ],
  [
    'S8',
    'a success in the journal was delivered in time, and the job has failed',
    (made) => {
      Object.assign(made.job('journaled'), { state: 'failed', resultOf: null });
      made.verdicts = [];
      declareDead(made, made.worker2, 2000, true);
    },
  ],
  ['S8', 'a killed process left no journal', (made) => made.journals.delete('worker2-1')],
  [
    ...(['S8', 'an outcome is not in the journal long after its handler ended'] as const),
    (made) => {
      Object.assign(made.worker2, { exitedAt: 5000 });
      made.journals
        .get('worker2-1')
        ?.set(grantKey('journaled', 1), { isStarted: true, outcome: undefined, isAcknowledged: false });
    },
  ],
  [
    ...(['S8', 'a job runs again although the next process took over with its outcome'] as const),
    (made) => {
      made.add({
        id: 'repeated',
        runs: [
          { on: made.worker2, from: 100 },
          { on: made.worker1, from: 6000 },
        ],
      });
      made.journals
        .get('worker2-1')
        ?.set(grantKey('repeated', 1), { isStarted: true, outcome: 'succeeded', isAcknowledged: false });
      made.verdicts = [];
      declareDead(made, made.worker2, 2000, true);
    },
  ],
  [
    'S9',
    'a success that the witness did not see',
    (made) => Object.assign(made.runs('plain')[0] ?? {}, { end: 'error' }),
  ],
  [
    'S9f',
    'a failure that no handler threw',
    (made) => Object.assign(made.job('broken'), { errorMessage: 'who knows' }),
  ],
  [
    ...(['S9f', 'a failure for losses that did not happen, whatever the row says'] as const),
    (made) => Object.assign(made.job('lost'), { state: 'failed', errorCode: 'lost', lost: 3, resultOf: null }),
  ],
  ['S10', 'a healthy worker is declared dead', (made) => declareDead(made, made.worker1, 5000)],
  [
    ...(['S10', 'a worker is declared dead because its server had a fault'] as const),
    (made) => {
      made.units.find(({ name }) => name === 'server1')?.troubles.push({ what: 'kill', from: 3000, to: 6000 });
      declareDead(made, made.worker1, 5000);
    },
  ],
  [
    ...(['S10', 'a worker is declared dead because its network was slow'] as const),
    (made) => {
      made.units.find(({ name }) => name === 'worker1')?.troubles.push({ what: 'slow', from: 3000, to: 6000 });
      declareDead(made, made.worker1, 5000);
    },
  ],
  [
    ...(['D9', 'a grant that no one started used up an attempt'] as const),
    (made) => {
      made.add({ id: 'wasted', runs: [{ on: made.worker1, from: 500, fence: 2, attempt: 2 }] });
      const [grant] = made.grants.get('wasted') ?? [];
      if (grant) made.grants.set('wasted', [{ ...grant, fence: 1, attempt: 1 }, grant]);
    },
  ],
  [
    'D10',
    'a repair without a fault before it',
    (made) => made.repairs.push({ kind: 'unknown_to_worker', count: 1, address: '10.0.0.1', seenAt: 90_000 }),
  ],
  [
    'D10',
    'a missing lane, which no fault explains',
    (made) => made.repairs.push({ kind: 'missing_lane', count: 1, address: '10.0.0.1', seenAt: 3000 }),
  ],
  [
    'C1',
    'a cancelled job starts',
    (made) => {
      made.add({ id: 'started', runs: [{ on: made.worker1, from: 500 }], row: { state: 'cancelled' } });
      made.act('cancel', 'started', { answeredAt: 110, answer: 'cancelled' });
    },
  ],
  ['C1', 'a job is cancelled that no one cancelled', (made) => made.add({ id: 'quiet', row: { state: 'cancelled' } })],
  [
    'P5',
    'a job of a paused queue starts',
    (made) => {
      made.add({ id: 'eager', sent: { queue: 'paused' }, runs: [{ on: made.worker1, from: 8000 }] });
      // finished long before the pause began
      made.databaseTroubles = [];
    },
  ],
  ['R1', 'result() answers another result', (made) => made.act('result', 'plain', { answer: 'worker2-1:plain:7' })],
  ['T1', 'a delayed job starts early', (made) => Object.assign(made.runs('delayed')[0] ?? {}, { from: 300 })],
  [
    'T2',
    'a job starts after its expiry',
    (made) => made.add({ id: 'tardy', sent: { expiresMs: 500 }, runs: [{ on: made.worker1, from: 90_000 }] }),
  ],
  [
    'T2',
    'a job that could not start in time runs',
    (made) => {
      made.add({ id: 'hopeless', sent: { expiresMs: 500, delayMs: 900 }, runs: [{ on: made.worker1, from: 950 }] });
    },
  ],
  ['T3', 'an attempt runs on after its timeout', (made) => Object.assign(made.runs('overtime')[0] ?? {}, { to: 9000 })],
  [
    'T3',
    'an attempt is stopped before its timeout',
    (made) => Object.assign(made.runs('overtime')[0] ?? {}, { to: 200 }),
  ],
  [
    'L1',
    'a job is still running at the end',
    (made) => Object.assign(made.job('plain'), { state: 'running', resultOf: null }),
  ],
  [
    'L1',
    'a job to be run again is unknown',
    (made) => Object.assign(made.job('lost'), { state: 'unknown', resultOf: null }),
  ],
  [
    ...(['L1', 'an unknown job had ended a second before its process was killed'] as const),
    (made) => {
      Object.assign(made.worker2, { exitedAt: 5000 });
      Object.assign(made.job('journaled'), { state: 'unknown', resultOf: null });
      made.journals
        .get('worker2-1')
        ?.set(grantKey('journaled', 1), { isStarted: true, outcome: undefined, isAcknowledged: false });
    },
  ],
  [
    ...(['L1', 'an unknown job that never ran and that no journal names'] as const),
    (made) => {
      made.add({
        id: 'vanished',
        type: 'hold',
        sent: { holds: true },
        runs: [{ on: made.worker2, from: 100 }],
        row: { state: 'unknown', resultOf: null },
      });
      made.executions.delete('vanished');
    },
  ],
  ['L2', 'jobs were left at the end', (made) => Object.assign(made, { drained: false })],
  [
    'L3',
    'a server does not answer after the faults',
    (made) => made.recovery.push({ what: 'server1 does not answer', ok: false }),
  ],
  ['L3', 'recovery was not checked', (made) => Object.assign(made, { recovery: [] })],
  ['L3', 'a worker does not stop', (made) => Object.assign(made.worker1, { isStopOverdue: true })],
  [
    'L4',
    'a server ends by itself',
    (made) =>
      void Object.assign(made.instances[2] ?? {}, {
        byItself: true,
        ending: 'code 1',
        exitedAt: 90_000,
        startedAt: 80_000,
      }),
  ],
  [
    'M',
    'the guard refused a move',
    (made) => made.serverLog.push('{"msg":"illegal move of job x: ready -> succeeded"}'),
  ],
  [
    'M',
    'the guard found impossible counters',
    (made) => made.databaseLog.push('ERROR:  impossible counters of job x: {}'),
  ],
  [
    'F',
    'a fault was not possible',
    (made) => made.faults.push({ fault: 'clock', outcome: 'failed', why: 'no library' }),
  ],
  [
    'F',
    'too many faults were left out',
    (made) => {
      for (let index = 0; index < 5; index++)
        made.faults.push({ fault: 'kill', outcome: 'left out', why: 'it was not alive' });
    },
  ],
];

test('a good run is good', () => expect(redCodes(goodRun())).toEqual([]));

test('every rule has been seen red', () => {
  const planted = new Set(PLANTS.map(([code]) => code));
  expect(RULES.map(({ code }) => code).filter((code) => !planted.has(code))).toEqual([]);
});

describe('a rule finds', () => {
  test.each(PLANTS)('%s: %s', (code, _, plant) => {
    const made = goodRun();
    plant(made);
    expect(redCodes(made)).toContain(code);
  });
});

describe('a rule accepts', () => {
  const unknown = { state: 'unknown', resultOf: null };
  const held = { type: 'hold', sent: { holds: true } };

  test('L1: a held job that died with its process', () => {
    const made = emptyRun();
    made.add({ id: 'dead', ...held, runs: [{ on: made.worker2, from: 100, to: 1000, end: undefined }], row: unknown });
    killWorker(made, made.worker2, 1000, { [grantKey('dead', 1)]: undefined });
    expect(redCodes(made)).toEqual([]);
  });

  test('L1: a held job that ended just before its process was killed, if its journal lacks the outcome', () => {
    const made = emptyRun();
    made.add({ id: 'dead', ...held, runs: [{ on: made.worker2, from: 100, to: 990 }], row: unknown });
    killWorker(made, made.worker2, 1000, { [grantKey('dead', 1)]: undefined });
    expect(redCodes(made)).toEqual([]);
  });

  test('L1: a held job that was killed between journal and handler', () => {
    const made = emptyRun();
    made.add({ id: 'dead', ...held, runs: [{ on: made.worker2, from: 100 }], row: unknown });
    made.executions.delete('dead');
    killWorker(made, made.worker2, 1000, { [grantKey('dead', 1)]: undefined });
    expect(redCodes(made)).toEqual([]);
  });

  test('S8: a lease that ran out before a late hello brought the session back and the next process took it over', () => {
    const made = emptyRun();
    const runs = [
      { on: made.worker2, from: 100, to: 900 },
      { on: made.worker1, from: 6000 },
    ];
    made.add({ id: 'repeated', runs, row: { lost: 1 } });
    killWorker(made, made.worker2, 1000, { [grantKey('repeated', 1)]: 'succeeded' });
    declareDead(made, made.worker2, 6500, true);
    expect(redCodes(made)).toEqual([]);
  });

  test('H1 to H3: a hostile peer that does no harm; D10: a worker that moved beside it', () => {
    const made = emptyRun();
    attack(made);
    made.repairs.push({ kind: 'unknown_to_worker', count: 3, address: '10.0.0.1', seenAt: 9000 });
    expect(redCodes(made)).toEqual([]);
  });

  test('S2: an overlap right after a pause that took most of the lease', () => {
    const made = emptyRun();
    made.worker2.pauses.push({ from: 200, to: 6000 });
    made.units.find(({ name }) => name === 'worker2')?.troubles.push({ what: 'pause', from: 200, to: 6000 });
    declareDead(made, made.worker2, 5000);
    const runs = [
      { on: made.worker2, from: 100, to: 6100, end: 'abort:lost' as const },
      { on: made.worker1, from: 5500, to: 7000 },
    ];
    made.add({ id: 'overlapped', runs, row: { lost: 1 } });
    expect(redCodes(made)).toEqual([]);
  });

  test('T3: a timeout that passed while the process was paused', () => {
    const made = emptyRun();
    made.worker1.pauses.push({ from: 150, to: 6000 });
    const run = { on: made.worker1, from: 100, to: 6001, end: 'abort:timeout' as const };
    const row = { state: 'failed', errorCode: 'timeout' };
    made.add({ id: 'frozen', type: 'overtime', sent: { timeoutMs: 300 }, runs: [run], row });
    expect(redCodes(made)).toEqual([]);
  });

  test('S9f: a job that was lost three times', () => {
    const made = emptyRun();
    const runs = [100, 2100, 4100].map((from) => ({
      on: made.worker2,
      from,
      to: from + 900,
      end: 'abort:lost' as const,
    }));
    made.add({ id: 'poison', runs, row: { state: 'failed', errorCode: 'lost', lost: 3 } });
    expect(redCodes(made)).toEqual([]);
  });

  test('D9: a grant that was not started and used no attempt', () => {
    const made = emptyRun();
    made.add({ id: 'returned', runs: [{ on: made.worker1, from: 500, fence: 2, attempt: 1 }] });
    const [grant] = made.grants.get('returned') ?? [];
    if (grant) made.grants.set('returned', [{ ...grant, fence: 1 }, grant]);
    expect(redCodes(made)).toEqual([]);
  });

  test('D9: a grant whose isolated handler was stopped before it began, as the journal of its worker says', () => {
    const made = emptyRun();
    made.add({ id: 'wasted', runs: [{ on: made.worker1, from: 500, fence: 2, attempt: 2 }] });
    const [grant] = made.grants.get('wasted') ?? [];
    if (grant) made.grants.set('wasted', [{ ...grant, fence: 1, attempt: 1 }, grant]);
    const entry = { isStarted: true, outcome: 'lost', isAcknowledged: true } as const;
    made.journals.set(made.worker1.key, new Map([[grantKey('wasted', 1), entry]]));
    expect(redCodes(made)).toEqual([]);
  });

  test('S4t: a third ending, if the answer to the retry may have been lost in a fault', () => {
    const made = goodRun();
    made.endings.set('broken', ['failed', 'failed', 'failed']);
    made.act('retry', 'broken', { sentAt: 50, answeredAt: 90 });
    expect(redCodes(made)).toEqual(['S4t']);
    made.databaseTroubles.push({ what: 'restart database', from: 60, to: 70 });
    expect(redCodes(made)).toEqual([]);
  });

  test('S4t: two endings of a job that a person gave another attempt', () => {
    const made = goodRun();
    made.endings.set('broken', ['failed', 'failed']);
    made.act('retry', 'broken', { sentAt: 50 });
    expect(redCodes(made)).toEqual([]);
  });
});

/** A worker with a data folder, over the deaths of its process. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WorkerOptions } from '../../../src/worker/index.js';
import { assignment, CLUSTER_ID, StreamPeer } from '../../support/stream-peer.js';
import { WorkerProcess } from '../../support/worker-process.js';

/** Long enough to start a job on a busy machine, short enough to wait until it is over. */
const LEASE_MS = 3000;

let peer: StreamPeer;
let journalDir: string;
const processes: WorkerProcess[] = [];
beforeEach(async () => {
  peer = await new StreamPeer().listen();
  journalDir = await mkdtemp(join(tmpdir(), 'drover-journal-'));
});
afterEach(async () => {
  await Promise.all(processes.splice(0).map((each) => each.kill()));
  await peer.close();
  await rm(journalDir, { recursive: true });
});

function processWith(options: Partial<WorkerOptions> = {}, shell?: string, failpoint?: string): WorkerProcess {
  const started = new WorkerProcess({ options: { url: peer.url, slots: 3, journalDir, ...options }, failpoint }, shell);
  processes.push(started);
  return started;
}

describe('a worker that is started again with its data folder', () => {
  it('keeps what it could not deliver from another cluster', async () => {
    const first = processWith();
    const connection = await peer.connection();
    expect((await connection.welcome()).clusterId).toBeUndefined();
    const echo = assignment('echo', 1);
    connection.assign(echo);
    await connection.takeOutcomes(1);
    await first.kill();

    const other = await new StreamPeer().listen();
    const refused = processWith({ url: other.url });
    const elsewhere = await other.connection();
    expect((await elsewhere.take('hello')).clusterId).toBe(CLUSTER_ID);
    elsewhere.send({ kind: 'refused', code: 'wrong_cluster', message: 'this is another one' });
    elsewhere.close();
    expect((await refused.ended).code).not.toBe(0);
    expect(refused.lines.join('\n')).toContain('this is another one');
    await other.close();

    processWith();
    const home = await peer.connection();
    expect(await home.welcome()).toMatchObject({ clusterId: CLUSTER_ID, holds: [{ id: echo.id }] });
    home.ack(await home.takeOutcomes(1));
    home.cut();
    const emptied = await peer.connection();
    expect((await emptied.welcome()).clusterId).toBeUndefined();
  });

  it('delivers the outcomes of its predecessor and tells at once which jobs died with it', async () => {
    const first = processWith();
    const connection = await peer.connection();
    const { sessionId, resumeKey } = await connection.welcome();
    const [echo, held, rerun] = [
      assignment('echo', { n: 1 }),
      assignment('ignore', 2, { options: { onLost: 'hold' } }),
      assignment('ignore', 3),
    ];
    connection.assign(echo, held, rerun);
    await first.says(`started ignore ${held.id}`);
    await first.says(`started ignore ${rerun.id}`);
    // The outcome is durable before it is sent, and what was started before it came with it.
    await connection.takeOutcomes(1);
    await first.kill();

    const next = processWith();
    const second = await peer.connection();
    const hello = await second.welcome();
    const named = await next.says('jobs were running when the previous process of this folder ended');
    expect(named).toContain(`"${held.id} 1"`);
    expect(named).toContain(`"${rerun.id} 1"`);
    expect(named).not.toContain(echo.id);
    expect(hello.previousSessions).toEqual([{ id: sessionId, resumeKey }]);
    expect(hello.resumeKey).not.toBe(resumeKey);
    expect(hello.sessionId).not.toBe(sessionId);
    expect(hello.holds.map(({ id }) => id).sort()).toEqual([echo.id, held.id, rerun.id].sort());
    const outcomes = await second.takeOutcomes(3);
    expect(outcomes).toContainEqual(expect.objectContaining({ id: echo.id, kind: 'succeeded', result: '{"n":1}' }));
    expect(outcomes).toContainEqual({ id: held.id, fence: 1, kind: 'lost' });
    expect(outcomes).toContainEqual({ id: rerun.id, fence: 1, kind: 'lost' });
    second.ack(outcomes);
    second.cut();

    const third = await (await peer.connection()).welcome();
    expect(third.holds).toEqual([]);
    expect(third).not.toHaveProperty('previousSessions');
  });

  it('tells of the last grant of a job that it was given again, not of one that it had handed back before', async () => {
    const first = processWith();
    const connection = await peer.connection();
    await connection.welcome();
    // The older outcome is never acknowledged: the answer was lost, and then the process.
    const held = assignment('echo', 1, { options: { onLost: 'hold' } });
    connection.assign(held);
    await connection.takeOutcomes(1);
    connection.assign({ ...held, type: 'ignore', fence: 2 });
    await first.says(`started ignore ${held.id}`);
    await first.kill();

    processWith();
    const second = await peer.connection();
    expect((await second.welcome()).holds).toEqual([{ id: held.id, fence: 2 }]);
    expect(await second.takeOutcomes(1)).toEqual([{ id: held.id, fence: 2, kind: 'lost' }]);
  });

  it('says so if its predecessor’s journal could not be read whole', async () => {
    const first = processWith();
    const connection = await peer.connection();
    const { sessionId, resumeKey } = await connection.welcome();
    // its outcome comes last into the journal, after the session
    connection.assign(assignment('echo', 1));
    await connection.takeOutcomes(1);
    await first.kill();
    const path = join(journalDir, 'journal');
    const bytes = await readFile(path);
    bytes.write('?', bytes.length - 10);
    await writeFile(path, bytes);

    processWith({ discardDamagedJournal: true });
    const next = await peer.connection();
    expect(await next.welcome()).toMatchObject({
      isJournalIncomplete: true,
      previousSessions: [{ id: sessionId, resumeKey }],
    });
  });

  it('has nothing to tell after a proper stop', async () => {
    const first = processWith();
    const connection = await peer.connection();
    await connection.welcome();
    connection.assign(assignment('echo', 1));
    await connection.take('outcomes');
    connection.oblige();
    first.signal('SIGTERM');
    expect(await first.ended).toEqual({ code: 0, signal: null });
    processWith();
    expect((await (await peer.connection()).welcome()).holds).toEqual([]);
  });

  it('does not start beside another one', async () => {
    processWith();
    await (await peer.connection()).welcome();
    const second = processWith();
    await second.says('belongs to another worker');
    expect((await second.ended).code).not.toBe(0);
  });
});

it('takes no jobs while its journal cannot be written, logs that, still reports, and resumes when it can be written', async () => {
  // 64 blocks of 512 bytes for each file: no root needed, and the error is that of a full disk in all but name.
  const worker = processWith({ slots: 2, prefetch: 0 }, 'ulimit -f 64');
  const connection = await peer.connection();
  await connection.welcome({ beatMs: 100, leaseMs: 30_000 });
  connection.answerBeats();
  const big = [assignment('echo', 'x'.repeat(20_000)), assignment('echo', 'y'.repeat(20_000))];
  connection.assign(...big);
  const outcomes = await connection.takeOutcomes(2);
  expect(outcomes.map(({ kind }) => kind)).toEqual(['succeeded', 'succeeded']);
  for (;;) if ((await connection.take('beat')).trouble?.includes('cannot be written')) break;
  const refused = assignment('echo', 3);
  connection.assign(refused);
  for (;;) {
    const [outcome] = await connection.takeOutcomes(1);
    if (outcome?.id !== refused.id) continue;
    expect(outcome.kind).toBe('released');
    break;
  }
  connection.ack([...outcomes, refused]);
  await worker.says('journal can be written again');
  const next = assignment('echo', 4);
  connection.assign(next);
  for (;;) {
    const [outcome] = await connection.takeOutcomes(1);
    if (outcome?.id !== next.id) continue;
    expect(outcome.kind).toBe('succeeded');
    break;
  }
});

it('hands a held job back that it could not begin before its lease was in doubt', async () => {
  const worker = processWith({}, undefined, 'hold.journaled:1:stop');
  const connection = await peer.connection();
  await connection.welcome({ beatMs: 250, leaseMs: LEASE_MS });
  connection.answerBeats();
  const held = assignment('echo', 1, { options: { onLost: 'hold' } });
  connection.assign(held);
  const state = () => spawnSync('ps', ['-o', 'state=', '-p', String(worker.child.pid)], { encoding: 'utf8' }).stdout;
  await expect.poll(state, { timeout: 20_000 }).toMatch(/^T/);
  // The clock of its machine continues, so there is nothing to wait for but the time.
  await delay(LEASE_MS);
  worker.signal('SIGCONT');
  expect(await connection.takeOutcomes(1)).toEqual([{ id: held.id, fence: 1, kind: 'released' }]);
  expect(worker.lines.filter((line) => line.startsWith('started'))).toEqual([]);
});

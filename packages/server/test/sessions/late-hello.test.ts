/** A hello that was late in the network: its worker has a newer connection by now, perhaps to another server. */
import { type Hello, newId } from '@drover/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TransactionRunner } from '../../src/db/database.js';
import { openSession } from '../../src/sessions/open-session.js';
import { endSession, leaveSession } from '../../src/sessions/session-store.js';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { createLifecycleBench, type LifecycleBench, SERVER_ID } from '../support/lifecycle.js';
import { connect, helloOf, PROOF, previously, register } from '../support/raw-worker.js';

let api: ApiBench;
let bench: LifecycleBench;
beforeAll(async () => {
  [api, bench] = await Promise.all([createApiBench(), createLifecycleBench()]);
});
afterAll(() => Promise.all([api.close(), bench.close()]));

test('it does not take the session back from the server that has the newer connection', async () => {
  const [sessionId, slow, quick] = [newId(), newId(), newId()];
  const open = (serverId: string, connection: number) =>
    openSession(bench.db.control, serverId, helloOf({ sessionId, connection }), 30_000, PROOF);
  expect(await open(quick, 2)).toBeDefined();
  expect(await open(slow, 1)).toBeUndefined();
  expect(await sessionRow(sessionId)).toMatchObject({ server_id: quick, connection: 2, ended_at: null });
  // an answer that was lost: the same hello is tried once more
  expect(await open(quick, 2)).toBeDefined();
});

test('what an older connection says of its end does not end the session of a newer one', async () => {
  const [id, serverId] = [newId(), newId()];
  for (const connection of [1, 2]) {
    await openSession(bench.db.control, serverId, helloOf({ sessionId: id, connection }), 30_000, PROOF);
  }
  await leaveSession(bench.db.control, serverId, { id, connection: 1 }, 'the connection was lost');
  expect(await endSession(bench.db.control, serverId, { id, connection: 1 })).toEqual([]);
  expect(await sessionRow(id)).toMatchObject({ server_id: serverId, ended_at: null, last_error: null });
});

test('it is refused, and the newer connection stays and gets jobs', async () => {
  const type = `only-${newId()}`;
  const { worker, hello } = await register(api.port, { types: [type], connection: 7 });
  const late = await connect({ port: api.port });
  late.send({ ...hello, connection: 6 });
  expect(await late.next('refused')).toMatchObject({ code: 'overtaken' });
  await api.call('/api/v1/jobs', { method: 'POST', body: { type, payload: 1 } });
  expect((await worker.next('assign')).jobs).toHaveLength(1);
});

describe('of a process that died and was followed by others with its journal', () => {
  /** The first process has a finished job in its journal; the second died after it had said hello, the third follows it. */
  async function prepare() {
    const [first, second, third] = [newId(), newId(), newId()];
    await open({ sessionId: first });
    const type = newId();
    await bench.add({ type });
    const [job] = await bench.claim(1, { types: [type], sessionId: first });
    if (!job) throw new Error('nothing was claimed');
    const holds = [{ id: job.id, fence: job.fence }];
    return {
      job,
      holds,
      ids: { first, second, third },
      second: { sessionId: second, previousSessions: previously(first), holds },
      third: { sessionId: third, previousSessions: previously(first, second), holds },
    };
  }
  const open = (hello: Partial<Hello>, db: TransactionRunner = bench.db.control) =>
    openSession(db, SERVER_ID, helloOf(hello), 30_000, PROOF);

  test('it is refused if it is committed last, and what the successor inherited stays with it', async () => {
    const { job, holds, ids, second, third } = await prepare();
    expect(await open(third)).toMatchObject({ held: holds });
    expect(await open(second)).toBeUndefined();
    expect(await open({ ...second, connection: 1000 })).toBeUndefined();
    expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: ids.third, fence: job.fence });
    expect(await sessionRow(ids.second)).toMatchObject({ server_id: null, ending: 'dead' });
  });

  test('what it inherits goes over to the successor if the two are opened at the same time', async () => {
    const { job, holds, ids, second, third } = await prepare();
    let opensNext: ReturnType<typeof open> | undefined;
    const interrupted: TransactionRunner = {
      ...bench.db.control,
      transaction: (work) =>
        bench.db.control.transaction(async (tx) => {
          const result = await work(tx);
          opensNext ??= open(third);
          await bench.untilSomeoneWaits();
          return result;
        }),
    };
    await open(second, interrupted);
    expect(await opensNext).toMatchObject({ held: holds });
    expect(await bench.row(job.id)).toMatchObject({ state: 'running', session_id: ids.third, fence: job.fence });
  });

  test('a journal whose disk was moved to another host is inherited there', async () => {
    const { ids, second, holds } = await prepare();
    expect(await open({ ...second, host: 'elsewhere' })).toMatchObject({ held: holds });
    expect(await sessionRow(ids.first)).toMatchObject({ ending: 'dead' });
  });

  test('a session whose resume key is not known is not ended, and the hello is refused', async () => {
    const { ids, second } = await prepare();
    const guessed = [{ id: ids.first, resumeKey: 'a'.repeat(43) }];
    await expect(open({ ...second, previousSessions: guessed })).rejects.toThrow('belongs to another worker');
    expect(await sessionRow(ids.first)).toMatchObject({ ended_at: null, ending: null });
  });
});

async function sessionRow(id: string): Promise<Record<string, unknown>> {
  const { rows } = await bench.pool.query('select * from drover.session where id = $1', [id]);
  return rows[0];
}

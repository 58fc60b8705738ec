/** A hello that was late in the network: its worker has a newer connection by now, perhaps to another server. */
import { newId } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSession } from '../../src/sessions/open-session.js';
import { endSession, leaveSession } from '../../src/sessions/session-store.js';
import { type ApiBench, createApiBench } from '../api/api-bench.js';
import { createLifecycleBench, type LifecycleBench } from '../support/lifecycle.js';
import { connect, helloOf, register } from '../support/raw-worker.js';

let api: ApiBench;
let bench: LifecycleBench;
beforeAll(async () => {
  [api, bench] = await Promise.all([createApiBench(), createLifecycleBench()]);
});
afterAll(() => Promise.all([api.close(), bench.close()]));

test('it does not take the session back from the server that has the newer connection', async () => {
  const [sessionId, slow, quick] = [newId(), newId(), newId()];
  const open = (serverId: string, connection: number) =>
    openSession(bench.db.control, serverId, helloOf({ sessionId, connection }), 30_000);
  expect(await open(quick, 2)).toBeDefined();
  expect(await open(slow, 1)).toBeUndefined();
  expect(await sessionRow(sessionId)).toMatchObject({ server_id: quick, connection: 2, ended_at: null });
  // an answer that was lost: the same hello is tried once more
  expect(await open(quick, 2)).toBeDefined();
});

test('what an older connection says of its end does not end the session of a newer one', async () => {
  const [id, serverId] = [newId(), newId()];
  for (const connection of [1, 2]) {
    await openSession(bench.db.control, serverId, helloOf({ sessionId: id, connection }), 30_000);
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

async function sessionRow(id: string): Promise<Record<string, unknown>> {
  const { rows } = await bench.pool.query('select * from drover.session where id = $1', [id]);
  return rows[0];
}

/** What a worker without a `logger` prints, as a fresh installation has it. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { assignment, StreamPeer } from '../support/stream-peer.js';
import { WorkerProcess } from '../support/worker-process.js';

let peer: StreamPeer;
let worker: WorkerProcess | undefined;
beforeEach(async () => {
  peer = await new StreamPeer().listen();
});
afterEach(async () => {
  peer.oblige();
  await worker?.kill();
  await peer.close();
});

describe('a worker without a logger', () => {
  it('prints what a handler logs at info, and of itself only warnings and errors', async () => {
    worker = new WorkerProcess({ options: { url: peer.url }, hasLogger: false });
    const connection = await peer.connection();
    await connection.welcome();
    const job = assignment('log', 1);
    connection.assign(job);
    const line = JSON.parse(await worker.says('from the handler'));
    expect(line).toMatchObject({ level: 'info', message: 'from the handler', jobId: job.id, jobType: 'log', step: 2 });
    await connection.takeOutcomes(1);
    expect(worker.lines.filter((text) => !text.startsWith('started'))).toHaveLength(1);
  });

  it('says after a few seconds that it finds no server, where it tries and why', async () => {
    const url = 'http://127.0.0.1:9';
    worker = new WorkerProcess({ options: { url }, hasLogger: false });
    expect(JSON.parse(await worker.says('connection.missing'))).toEqual({
      time: expect.any(String),
      level: 'warn',
      event: 'connection.missing',
      message: 'worker still finds no server',
      forMs: expect.any(Number),
      reasons: { [url]: expect.stringContaining('connection refused') },
    });
    expect(worker.lines).toHaveLength(1);
  });
});

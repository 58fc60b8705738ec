/** A Redis server for one measurement, with an append-only file and the fsync policy that is asked for. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { sleep } from './clock.mjs';
import { freePort } from './free-port.mjs';
import { ownProcess } from './owned-processes.mjs';

const START_TIMEOUT_MS = 10_000;

/** The version of `redis-server`, or undefined where there is none. */
export function redisVersion() {
  try {
    return /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))?.[1];
  } catch {
    return undefined;
  }
}

export async function startRedis(fsync, directory, log) {
  const dataDirectory = join(directory, `redis-${Math.random().toString(36).slice(2)}`);
  mkdirSync(dataDirectory);
  const port = await freePort();
  const settings = {
    port,
    bind: '127.0.0.1',
    dir: dataDirectory,
    save: '',
    appendonly: 'yes',
    appendfsync: fsync,
    'maxmemory-policy': 'noeviction',
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn('redis-server', args, { stdio: ['ignore', log, log] });
  const stop = ownProcess(child, 'SIGTERM');
  await waitUntilListening(port);
  return {
    pid: child.pid,
    port,
    stop: async () => {
      await stop();
      rmSync(dataDirectory, { recursive: true, force: true });
    },
  };
}

async function waitUntilListening(port) {
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < giveUpAt) {
    const open = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
    if (open) return;
    await sleep(20);
  }
  throw new Error(`redis-server did not open port ${port}`);
}

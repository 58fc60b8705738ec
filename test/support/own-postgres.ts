/** A PostgreSQL that a test may restart and crash, because no other test uses it. It keeps its port. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../packages/server/src/db/embedded.js';
import { migrate } from '../../packages/server/src/db/migrate.js';
import { freePort } from './free-port.js';
import { until } from './until.js';

export type OwnPostgres = {
  readonly url: string;
  readonly pool: pg.Pool;
  /** From now on it accepts no new connections; it ends when the present ones have ended. */
  beginShutdown(): void;
  /** `fast` ends sessions and writes everything out; `immediate` and `crash` end in recovery: one by SIGQUIT, one by SIGKILL. */
  restart(how: 'fast' | 'immediate' | 'crash', whileDown?: () => Promise<void>): Promise<void>;
  drop(): Promise<void>;
};

export async function startOwnPostgres(): Promise<OwnPostgres> {
  const dataDir = await mkdtemp(join(tmpdir(), 'drover-restarts-'));
  const port = await freePort();
  const start = () => startEmbeddedPostgres({ dataDir, port, settings: { max_connections: '100' } });
  let running: EmbeddedPostgres = await start();
  await migrate(running.url);
  const pool = new pg.Pool({ connectionString: running.url, max: 5 });
  // its connections end with every restart, which is intended
  pool.on('error', () => {});

  return {
    url: running.url,
    pool,
    beginShutdown: () => void process.kill(running.pid, 'SIGTERM'),
    async restart(how, whileDown) {
      const { pid } = running;
      if (how !== 'fast') {
        process.kill(pid, how === 'crash' ? 'SIGKILL' : 'SIGQUIT');
        await until('PostgreSQL is gone', () => !isAlive(pid));
      }
      await running.stop();
      await whileDown?.();
      running = await start();
    },
    async drop() {
      await pool.end();
      await running.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    // no such process
    return false;
  }
}

/**
 * The environment of a scenario: a database with guarded moves, servers and workers as processes, a witness. All of
 * it is stopped after the file, also when a test has failed; the output of the processes is then printed.
 */
import { type Client, type ClientOptions, createClient } from '@drover/sdk';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { checkNothingRefused, GUARD_COMPLAINT, guardMoves } from '../../packages/server/test/support/guard-moves.js';
import type { OwnedProcess } from './owned-process.js';
import { launchNode, type NodeOptions, type NodeProcess } from './start-node.js';
import { isAnswering, launchServer, type ServerOptions, type ServerProcess } from './start-server.js';
import { launchWorker, type WorkerProcess, type WorkerProcessOptions } from './start-worker.js';
import { until } from './until.js';
import { createWitness, type Witness } from './witness.js';

/** Short, so that a test does not wait long for a lost worker to be detected. */
const FLAGS = { beat: '300ms', lease: '2s', poll: '100ms', 'log-level': 'info' };

type StageDatabase = Pick<TestDatabase, 'url' | 'pool' | 'drop'>;

export type Stage = {
  readonly databaseUrl: string;
  readonly pool: pg.Pool;
  readonly witness: Witness;
  /** Resolves when the server answers. */
  startServer(options?: Omit<ServerOptions, 'databaseUrl'>): Promise<ServerProcess>;
  /** Resolves when a server knows the worker. */
  startWorker(options: Omit<WorkerProcessOptions, 'witness'>): Promise<WorkerProcess>;
  /** A server and a worker in one process; resolves when its worker is served. */
  startNode(options: Omit<NodeOptions, 'databaseUrl' | 'witness'>): Promise<NodeProcess>;
  /** Starts it without waiting. */
  launchWorker(options: Omit<WorkerProcessOptions, 'witness'>): WorkerProcess;
  /** A client that is closed after the file. */
  client(url: string | readonly string[], options?: Omit<ClientOptions, 'url'>): Client;
  /** The names of the workers that a server serves now. */
  servedWorkers(): Promise<string[]>;
  /** Kills all running processes, for a file whose tests must not share processes. */
  killAll(): Promise<void>;
  /** Log lines of servers about moves that the guard has refused. */
  illegalMoves(): string[];
};

/** Call it at the top of a test file. `prepare` creates a custom database, which is guarded here. */
export function createStage(prepare?: () => Promise<StageDatabase>): Stage {
  const processes: OwnedProcess[] = [];
  const clients: Client[] = [];
  let database: StageDatabase;
  let witness: Witness;

  beforeAll(async () => {
    database = prepare ? await guarded(await prepare()) : await createTestDatabase();
    witness = createWitness();
  });
  beforeEach(({ onTestFailed }) => {
    onTestFailed(() => {
      for (const { name, pid, log } of processes) console.error(`── ${name} (${pid})\n${log()}`);
    });
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await stage.killAll();
    witness?.remove();
    await database?.drop();
  });

  const stage: Stage = {
    get databaseUrl() {
      return database.url;
    },
    get pool() {
      return database.pool;
    },
    get witness() {
      return witness;
    },
    async startServer({ flags, ...options } = {}) {
      const server = await launchServer({ databaseUrl: database.url, flags: { ...FLAGS, ...flags }, ...options });
      processes.push(server);
      await isAnswering(server);
      return server;
    },
    async startWorker(options) {
      const worker = stage.launchWorker(options);
      await until(`${worker.name} is served`, async () => (await stage.servedWorkers()).includes(options.name));
      return worker;
    },
    async startNode({ flags, ...options }) {
      const { url: databaseUrl } = database;
      const node = await launchNode({
        ...options,
        databaseUrl,
        witness: witness.path,
        flags: { ...FLAGS, ...flags },
      });
      processes.push(node);
      await isAnswering(node);
      await until(`${options.name} is served`, async () => (await stage.servedWorkers()).includes(options.name));
      return node;
    },
    launchWorker(options) {
      const worker = launchWorker({ ...options, witness: witness.path });
      processes.push(worker);
      return worker;
    },
    client(url, options) {
      const client = createClient({ url, ...options });
      clients.push(client);
      return client;
    },
    async servedWorkers() {
      const { rows } = await database.pool.query<{ name: string }>(
        'select name from drover.session where server_id is not null and ended_at is null order by name',
      );
      return rows.map((row) => row.name);
    },
    async killAll() {
      await Promise.all(processes.map((started) => (started.hasExited ? undefined : started.destroy())));
    },
    illegalMoves: () => processes.flatMap(({ log }) => log().split('\n')).filter((line) => GUARD_COMPLAINT.test(line)),
  };
  return stage;
}

/** Does what `createTestDatabase` does, for a database that is not created from its template. */
async function guarded(own: StageDatabase): Promise<StageDatabase> {
  await guardMoves(own.pool);
  const drop = async () => {
    try {
      await checkNothingRefused(own.pool);
    } finally {
      await own.drop();
    }
  };
  return { url: own.url, pool: own.pool, drop };
}

/**
 * Hints between servers, by NOTIFY: "jobs are ready", "check for cancels", "check for pauses", "read tokens again",
 * "read job types again". Nothing depends on
 * them, because every server also polls. They are coalesced to one in HINT_PAUSE_MS and sent only while other servers
 * are known, because notifying commits are serialised (7.8k → 2.4k commits/s).
 */
import type { Logger } from 'pino';
import type { Runner } from '../db/database.js';
import { DatabaseClient } from '../db/database-client.js';
import { sql } from '../db/statement.js';

export type Hint = 'ready' | 'cancel' | 'pause' | 'token' | 'types';

export type Wakeups = {
  start(): void;
  stop(): Promise<void>;
  tellOthers(hint: Hint): void;
};

type WakeupsDeps = {
  /** The connection string of the host in use. */
  url(): string;
  db: Runner;
  serverId: string;
  logger: Logger;
  onHint(hint: Hint): void;
  othersAlive(): boolean;
};

const CHANNEL = 'drover_hints';
const HINT_PAUSE_MS = 10;
const RECONNECT_MS = 1000;
const LEAVE_MS = 2000;

const notify = sql('notify')`select pg_notify('${CHANNEL}', $1)`;

export function createWakeups(deps: WakeupsDeps): Wakeups {
  const { logger } = deps;
  const pending = new Set<Hint>();
  let timer: NodeJS.Timeout | undefined;
  let listener: DatabaseClient | undefined;
  let reconnect: NodeJS.Timeout | undefined;
  let stopped = false;

  function flush(): void {
    timer = undefined;
    const text = `${deps.serverId} ${[...pending].join(' ')}`;
    pending.clear();
    deps.db
      .run(notify, [text])
      .catch((error: Error) => logger.debug({ event: 'hint.failed', err: error }, 'a hint could not be sent'));
  }

  /** A dedicated connection: a busy listener would delay every notifying commit. */
  function listen(): void {
    const client = new DatabaseClient({
      connectionString: deps.url(),
      application_name: 'drover hints',
      keepAlive: true,
      connectionTimeoutMillis: 5000,
    });
    listener = client;
    const lost = (error?: Error) => {
      if (stopped || listener !== client) return;
      listener = undefined;
      logger.debug({ event: 'hints.lost', err: error }, 'hints are not heard; polling continues');
      client.end().catch(() => {
        // already closed
      });
      reconnect = setTimeout(listen, RECONNECT_MS);
    };
    client.on('error', lost);
    client.on('end', () => lost());
    client.on('notification', ({ payload }) => {
      const [sender, ...hints] = (payload ?? '').split(' ');
      if (sender !== deps.serverId) for (const hint of hints) deps.onHint(hint as Hint);
    });
    client
      .connect()
      .then(() => client.query(`listen ${CHANNEL}`))
      .catch(lost);
  }

  return {
    start: listen,
    async stop() {
      stopped = true;
      clearTimeout(timer);
      clearTimeout(reconnect);
      if (!listener) return;
      await listener.endWithin(LEAVE_MS);
    },
    tellOthers(hint) {
      if (stopped || !deps.othersAlive()) return;
      pending.add(hint);
      timer ??= setTimeout(flush, HINT_PAUSE_MS);
    },
  };
}

/** Servers and workers as processes on loopback, ended by their pid after the file, whatever became of the test. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../../../test/support/free-port.js';
import { environmentOf } from '../../../../../test/support/test-points/environment.js';

const CLI = fileURLToPath(new URL('../../../dist/cli/main.js', import.meta.url));
const WORKER = fileURLToPath(new URL('./worker.mjs', import.meta.url));
const ASK_EVERY_MS = 20;
/** Far above what anything takes on a busy machine. */
const PATIENCE_MS = 60_000;
/** Short, so that a lost worker is noticed while a test waits for it. */
const FLAGS = ['--beat', '200ms', '--lease', '2s', '--poll', '100ms', '--log-format', 'json'];
const MAX_LOG = 200_000;

export type Owned = { readonly child: ChildProcess; readonly exited: Promise<string>; log(): string };
export type OwnedServer = Owned & { readonly url: string };

export type Processes = {
  startServer(databaseUrl: string, options?: { failpoint?: string; flags?: string[] }): Promise<OwnedServer>;
  /** With a journal it has a folder of its own, the same for all workers of its name. */
  startWorker(name: string, urls: readonly string[], options?: { hasJournal?: boolean; failpoint?: string }): Owned;
  /** Every execution so far: job, attempt, moments of the start and of the end, if there was one. */
  executions(): Execution[];
  log(): string;
  end(): Promise<void>;
};

export type Execution = { id: string; attempt: number; from: number; to: number | undefined };

export function createProcesses(): Processes {
  const folder = mkdtempSync(join(tmpdir(), 'drover-faults-'));
  const owned: Owned[] = [];
  const files: string[] = [];

  function start(file: string, args: string[], env: Record<string, string>): Owned {
    const child = fork(file, args, {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
      execArgv: [],
      // with a channel: the process ends when this one ends
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    let text = '';
    for (const output of [child.stdout, child.stderr]) {
      output?.setEncoding('utf8').on('data', (chunk: string) => {
        text = (text + chunk).slice(-MAX_LOG);
      });
    }
    const exited = once(child, 'exit').then(([code, signal]) => String(signal ?? code));
    const started = { child, exited, log: () => text };
    owned.push(started);
    return started;
  }

  return {
    async startServer(databaseUrl, { failpoint, flags = [] } = {}) {
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      const env = { DROVER_DATABASE_URL: databaseUrl, ...environmentOf({ failpoint }) };
      const server = start(CLI, ['server', '--insecure', '--port', String(port), ...FLAGS, ...flags], env);
      await until('the server answers', async () => {
        if (server.child.exitCode !== null) throw new Error(`the server ended at its start:\n${server.log()}`);
        // one that a failpoint ends at its start has been there
        if (server.child.signalCode !== null) return true;
        return (await fetch(`${url}/api/ping`).catch(() => undefined))?.ok ?? false;
      });
      return { ...server, url };
    },
    startWorker(name, urls, { hasJournal = false, failpoint } = {}) {
      const witness = join(folder, `${name}-${files.length}`);
      files.push(witness);
      const journalDir = hasJournal ? join(folder, `journal-${name}`) : undefined;
      const settings = JSON.stringify({ name, urls, witness, journalDir });
      return start(WORKER, [], { FAULTS_WORKER: settings, ...environmentOf({ failpoint }) });
    },
    executions: () => files.flatMap(readExecutions),
    log: () => owned.map(({ child, log }) => `── ${child.spawnfile} ${child.pid}\n${log()}`).join('\n'),
    async end() {
      for (const { child } of owned) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await Promise.all(owned.map(({ exited }) => exited));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function readExecutions(file: string): Execution[] {
  let text = '';
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    // its worker has run nothing yet
  }
  const found = new Map<string, Execution>();
  for (const line of text.split('\n').slice(0, -1)) {
    const [mark, number = '', id = '', attempt, at] = line.split(' ');
    const execution = found.get(number);
    if (mark === 's') found.set(number, { id, attempt: Number(attempt), from: Number(at), to: undefined });
    else if (execution) execution.to = Number(at);
  }
  return [...found.values()];
}

/** Asks again and again. An error of the question ends the wait. */
export async function until(
  what: string,
  ask: () => Promise<boolean> | boolean,
  withinMs = PATIENCE_MS,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await ask())) {
    if (performance.now() > deadline) throw new Error(`waited ${withinMs} ms in vain: ${what}`);
    await delay(ASK_EVERY_MS);
  }
}

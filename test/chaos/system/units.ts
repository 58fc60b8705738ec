/**
 * The servers and workers of the run: each is a process on its own machine (a network namespace), observed from
 * outside. If one ends by itself (a worker that was cut off), that is recorded and it is restarted. The rules trust
 * when each process began, was frozen and died. The journal of a worker is copied at each death, before its successor
 * can change it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type EventEmitter, once } from 'node:events';
import { closeSync, copyFileSync, existsSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SAFETY_MECHANISMS } from '@drover/protocol/test-points';
import { environmentOf } from '../../support/test-points/environment.js';
import { nowMs } from '../clock.js';
import type { FakeClock } from './fake-clock.js';
import type { Machine } from './network.js';

const CLI = fileURLToPath(new URL('../../../packages/server/dist/cli/main.js', import.meta.url));
const WORKER = fileURLToPath(new URL('../programs/worker.mjs', import.meta.url));
const SERVER_PORT = 8420;
/** Pause before a process that ended by itself is restarted, as a supervisor would do. */
const RESTART_MS = 500;
/** Limit for a signal to take effect. */
const FROZEN_WITHIN_MS = 2000;
/** Also for a worker whose event loop is blocked by a handler. */
const ANSWER_MS = 3000;
/** A unit that was killed this long before it broke forever may not have come back in between. */
const RETURN_MS = 10_000;

export type Span = { from: number; to: number };
/** One process from its start to its end. */
export type Instance = {
  readonly key: string;
  readonly unit: string;
  readonly role: Role;
  readonly pid: number;
  readonly startedAt: number;
  exitedAt: number | undefined;
  ending: string | undefined;
  /** The run had not requested its end. */
  byItself: boolean;
  /** It was told to stop, did not stop in time, and was killed. */
  isStopOverdue: boolean;
  readonly pauses: Span[];
};
export type Role = 'server' | 'worker';
/** A time in which a unit or the database was broken. */
export type Trouble = Span & { what: string };

export type Unit = {
  readonly name: string;
  readonly role: Role;
  readonly machine: Machine;
  readonly clock: FakeClock | undefined;
  readonly url: string;
  readonly troubles: Trouble[];
  readonly instance: Instance | undefined;
  readonly isAlive: boolean;
  start(): void;
  /** Freezes every process of the machine; resolves when they are frozen. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Sends SIGKILL or SIGTERM. Resolves when it is gone. It stays gone until `start`. */
  end(signal: 'SIGKILL' | 'SIGTERM', withinMs?: number): Promise<void>;
  /** The wall clock time of the process. Undefined if it does not answer. */
  readClock(): Promise<number | undefined>;
  /** Records the start of a trouble. Call the returned function at its end. */
  suffer(what: string): () => void;
};

export const BROKEN_FOREVER = 'broken forever';

/** Whether the process belongs to a unit that stays broken, and has no successor that could report for it. */
export function isBrokenForever(
  units: readonly Unit[],
  { unit, exitedAt = Number.POSITIVE_INFINITY }: Instance,
): boolean {
  const broken = units.find(({ name }) => name === unit)?.troubles.find(({ what }) => what.startsWith(BROKEN_FOREVER));
  return broken !== undefined && exitedAt > broken.from - RETURN_MS;
}

/** How long the process ran after this time until its death, not counting the time in which it was frozen. */
export function ranMs(from: number, { exitedAt = Number.POSITIVE_INFINITY, pauses }: Instance): number {
  const paused = pauses.map((pause) => Math.max(0, Math.min(pause.to, exitedAt) - Math.max(pause.from, from)));
  return exitedAt - from - paused.reduce((sum, ms) => sum + ms, 0);
}

export type UnitSettings = {
  folder: string;
  instances: Instance[];
  databaseUrl: string;
  serverUrls: readonly string[];
  without: readonly string[];
  beat: string;
  lease: string;
  /** Receives the ids of planted jobs that have started, with the name of their worker. */
  begun: EventEmitter;
  /** Workers that take only jobs whose handlers obey their signal. */
  heedful: readonly string[];
  /** A control: the journal of a dead process is removed, so that its successor finds none. */
  losesJournals: boolean;
};

export function urlOf(machine: Machine): string {
  return `http://${machine.address}:${SERVER_PORT}`;
}

export function createUnit(
  name: string,
  role: Role,
  machine: Machine,
  clock: FakeClock | undefined,
  settings: UnitSettings,
): Unit {
  const troubles: Trouble[] = [];
  let child: ChildProcess | undefined;
  let instance: Instance | undefined;
  let wanted = false;
  let starts = 0;

  function suffer(what: string): () => void {
    const trouble: Trouble = { from: nowMs(), to: Number.POSITIVE_INFINITY, what };
    troubles.push(trouble);
    return () => {
      trouble.to = nowMs();
    };
  }

  function launch(): void {
    starts += 1;
    const key = `${name}-${starts}`;
    const log = openSync(join(settings.folder, 'logs', `${name}.log`), 'a');
    const { args, env } = role === 'server' ? serverCommand(machine, settings) : workerCommand(name, key, settings);
    const started = spawn('ip', ['netns', 'exec', machine.namespace, process.execPath, ...args], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env, ...clock?.env },
      // the channel ends the process when we end
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    const born: Instance = {
      ...{ key, unit: name, role, pid: started.pid ?? 0, startedAt: nowMs(), exitedAt: undefined, ending: undefined },
      ...{ byItself: false, isStopOverdue: false, pauses: [] },
    };
    child = started;
    instance = born;
    settings.instances.push(born);
    started.on('error', () => {});
    started.on('message', (message: { begun?: string }) => {
      if (message.begun !== undefined) settings.begun.emit(message.begun, name);
    });
    started.on('exit', (code, signal) => {
      born.exitedAt = nowMs();
      born.ending = signal ?? `code ${code}`;
      if (role === 'worker') keepJournal(key);
      const open = born.pauses.find((pause) => pause.to === Number.POSITIVE_INFINITY);
      if (open) open.to = born.exitedAt;
      if (!wanted) return;
      born.byItself = true;
      const gone = suffer('it had ended by itself');
      setTimeout(() => {
        gone();
        if (wanted && instance === born) launch();
      }, RESTART_MS);
    });
  }

  function keepJournal(key: string): void {
    const journal = join(settings.folder, 'data', name, 'journal');
    if (!existsSync(journal)) return;
    copyFileSync(journal, join(settings.folder, 'journals', key));
    if (settings.losesJournals) rmSync(journal);
  }

  const isAlive = () => instance !== undefined && instance.exitedAt === undefined;

  return {
    name,
    role,
    machine,
    clock,
    url: urlOf(machine),
    troubles,
    suffer,
    get instance() {
      return instance;
    },
    start() {
      wanted = true;
      if (instance === undefined || instance.exitedAt !== undefined) launch();
    },
    get isAlive() {
      return isAlive();
    },
    async pause() {
      if (!instance || !isAlive()) throw new Error(`${name} is not alive`);
      const { pid, pauses } = instance;
      const current = instance;
      process.kill(pid, 'SIGSTOP');
      const deadline = nowMs() + FROZEN_WITHIN_MS;
      while (!isFrozen(pid)) {
        if (current.exitedAt !== undefined) return;
        if (nowMs() > deadline) throw new Error(`${name} did not freeze`);
        await delay(5);
      }
      pauses.push({ from: nowMs(), to: Number.POSITIVE_INFINITY });
      // handlers in their own processes are frozen with their machine
      await machine.signalAll('SIGSTOP');
    },
    async resume() {
      const open = instance?.pauses.find((pause) => pause.to === Number.POSITIVE_INFINITY);
      if (!open) return;
      // before the signal: the time counted as frozen must not include running time
      open.to = nowMs();
      await machine.signalAll('SIGCONT');
    },
    async readClock() {
      return role === 'server' ? clockOfServer(urlOf(machine)) : clockOfWorker(child);
    },
    async end(signal, withinMs = 15_000) {
      wanted = false;
      if (!child || !instance || instance.exitedAt !== undefined) return;
      const current = child;
      const ending = instance;
      const ended = once(current, 'exit');
      current.kill(signal);
      const overdue = setTimeout(() => {
        ending.isStopOverdue = true;
        current.kill('SIGKILL');
      }, withinMs);
      await ended;
      clearTimeout(overdue);
    },
  };
}

function isFrozen(pid: number): boolean {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return false;
  const stat = readFileSync(path, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
}

/** To the second. */
async function clockOfServer(url: string): Promise<number | undefined> {
  const answer = await fetch(`${url}/api/ping`, { signal: AbortSignal.timeout(ANSWER_MS) }).catch(() => undefined);
  await answer?.text();
  const date = answer?.headers.get('date');
  return date ? Date.parse(date) : undefined;
}

async function clockOfWorker(child: ChildProcess | undefined): Promise<number | undefined> {
  if (!child?.connected) return undefined;
  return new Promise((resolve) => {
    const timer = setTimeout(() => finish(undefined), ANSWER_MS);
    function finish(clock: number | undefined): void {
      clearTimeout(timer);
      child?.off('message', listen);
      resolve(clock);
    }
    function listen(message: { clock?: number }): void {
      if (message.clock !== undefined) finish(message.clock);
    }
    child.on('message', listen);
    child.send({ kind: 'clock' }, (error) => {
      if (error) finish(undefined);
    });
  });
}

function serverCommand(machine: Machine, { databaseUrl, without, beat, lease }: UnitSettings) {
  const flags = {
    ...{ host: machine.address, port: String(SERVER_PORT), 'public-url': urlOf(machine) },
    ...{ beat, lease, poll: '100ms', 'log-format': 'json' },
  };
  const args = ['server', '--insecure', ...Object.entries(flags).flatMap(([key, value]) => [`--${key}`, value])];
  return { args: [CLI, ...args], env: { DROVER_DATABASE_URL: databaseUrl, ...testEnv(without) } };
}

function workerCommand(name: string, key: string, { folder, serverUrls, without, heedful }: UnitSettings) {
  const options = {
    ...{ name, instance: key, urls: serverUrls, witness: join(folder, 'witness', `${key}.log`) },
    journalDir: join(folder, 'data', name),
    isHeedful: heedful.includes(name),
  };
  return { args: [WORKER], env: { CHAOS_WORKER: JSON.stringify(options), ...testEnv(without) } };
}

function testEnv(without: readonly string[]): Record<string, string> {
  return environmentOf({ without: SAFETY_MECHANISMS.filter((mechanism) => without.includes(mechanism)) });
}

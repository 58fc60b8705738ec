/**
 * The servers and workers of the run: each a process on a machine of its own, watched from outside. What they do
 * by themselves (a worker that ends itself) is noted and they are started again; when each process began, stood
 * still and died is what the checker trusts.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type EventEmitter, once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { nowMs } from './clock.js';
import type { FakeClock } from './fake-clock.js';
import type { Machine } from './network.js';

const CLI = fileURLToPath(new URL('../../packages/server/dist/cli/main.js', import.meta.url));
const WORKER = fileURLToPath(new URL('./programs/worker.mjs', import.meta.url));
const SERVER_PORT = 8420;
/** Until a process that ended by itself is started again, as an operator's supervisor would. */
const RESTART_MS = 500;
/** A process that has just been started may be slow for this long. */
const START_MS = 3000;

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
  /** Nobody of the run had asked it to go. */
  byItself: boolean;
  readonly pauses: Span[];
};
export type Role = 'server' | 'worker';
/** A time in which the unit, or what it needs, was not well. */
export type Trouble = Span & { what: string };

export type Unit = {
  readonly name: string;
  readonly role: Role;
  readonly machine: Machine;
  readonly clock: FakeClock | undefined;
  readonly url: string;
  readonly troubles: Trouble[];
  readonly instance: Instance | undefined;
  start(): void;
  pause(): void;
  resume(): void;
  /** SIGKILL or SIGTERM; resolves when it is gone. It stays so until `start`. */
  end(signal: 'SIGKILL' | 'SIGTERM', withinMs?: number): Promise<void>;
  /** Notes the beginning of a trouble; call the answer at its end. */
  suffer(what: string): () => void;
};

export type UnitSettings = {
  folder: string;
  instances: Instance[];
  databaseUrl: string;
  serverUrls: readonly string[];
  without: readonly string[];
  beat: string;
  lease: string;
  /** Is told the ids of planted jobs that have begun, with the name of their worker. */
  begun: EventEmitter;
  /** Workers that take only jobs whose handlers stop when they are told to. */
  heedful: readonly string[];
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
      // the channel is for our own end: whoever it belongs to goes with us
      stdio: ['ignore', log, log, 'ipc'],
    });
    closeSync(log);
    const born: Instance = {
      ...{ key, unit: name, role, pid: started.pid ?? 0, startedAt: nowMs(), exitedAt: undefined, ending: undefined },
      ...{ byItself: false, pauses: [] },
    };
    child = started;
    instance = born;
    settings.instances.push(born);
    const young = suffer('it has just been started');
    setTimeout(young, START_MS).unref();
    started.on('error', () => {});
    started.on('message', (id) => settings.begun.emit(String(id), name));
    started.on('exit', (code, signal) => {
      born.exitedAt = nowMs();
      born.ending = signal ?? `code ${code}`;
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
    pause() {
      if (!instance || instance.exitedAt !== undefined || !child?.kill('SIGSTOP')) return;
      instance.pauses.push({ from: nowMs(), to: Number.POSITIVE_INFINITY });
    },
    resume() {
      const open = instance?.pauses.find((pause) => pause.to === Number.POSITIVE_INFINITY);
      if (!open) return;
      // before the signal: what is counted as frozen must have been
      open.to = nowMs();
      child?.kill('SIGCONT');
    },
    async end(signal, withinMs = 15_000) {
      wanted = false;
      if (!child || !instance || instance.exitedAt !== undefined) return;
      const current = child;
      const ended = once(current, 'exit');
      current.kill(signal);
      const impatient = setTimeout(() => current.kill('SIGKILL'), withinMs);
      await ended;
      clearTimeout(impatient);
    },
  };
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
    dataDir: join(folder, 'data', name),
    isHeedful: heedful.includes(name),
  };
  return { args: [WORKER], env: { CHAOS_WORKER: JSON.stringify(options), ...testEnv(without) } };
}

function testEnv(without: readonly string[]): Record<string, string> {
  return without.length > 0 ? { DROVER_TEST_WITHOUT: without.join(',') } : {};
}

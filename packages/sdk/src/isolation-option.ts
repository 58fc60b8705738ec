/**
 * The `isolation` of a job type: as given, and with every default filled in.
 *
 * `memory` limits what the handler's process and everything it started keep resident, all together. It is
 * measured ten times a second (see `watchdog.ts`), so a process may exceed it for that long. The JavaScript
 * heap gets the same limit by `--max-old-space-size`, which V8 keeps to the byte.
 */
import type { Duration } from '@drover/protocol';
import { durationOption, integerOption, refuse, refuseUnknownOptions } from './options.js';

const MIB = 1024 * 1024;
const UNIT_BYTES: Readonly<Record<string, number>> = { MiB: MIB, GiB: 1024 * MIB };
const SIZE_PATTERN = /^(\d{1,7}(?:\.\d{1,3})?)(MiB|GiB)$/;
/** The idle process of a small handler takes about 90 MiB, most of it Node itself; less is no limit but a failure. */
const MIN_MEMORY_BYTES = 128 * MIB;
const MAX_MEMORY_BYTES = 1024 * 1024 * MIB;
/** A process ends after this many jobs, so that what their handlers leak has an end too. */
const DEFAULT_MAX_JOBS = 1000;
const MAX_JOBS = 1_000_000;
/** Between the abort of its signal and the kill of a handler that goes on. */
const DEFAULT_GRACE_MS = 5000;

export type MemorySize = number | `${number}${'MiB' | 'GiB'}`;

export type ProcessIsolationInput = {
  kind: 'process';
  /** Limit for the process and everything it started, such as `"512MiB"`, or in bytes. Default: Node's own limits. */
  memory?: MemorySize | undefined;
  /** Whether the process is used for further jobs of its type, or for how many in all. Default: 1000. */
  reuse?: boolean | number | undefined;
  /** How long a handler may go on after its signal was aborted before it is killed. Default 5 s. */
  grace?: Duration | undefined;
};

export type IsolationInput = 'none' | 'process' | ProcessIsolationInput;

export type ProcessIsolation = {
  readonly kind: 'process';
  readonly memoryBytes: number | undefined;
  readonly maxJobs: number;
  readonly graceMs: number;
};

const OPTION_NAMES = ['kind', 'memory', 'reuse', 'grace'] as const;
const EXPECTED = '"none", "process" or { kind: "process", memory?, reuse?, grace? }';

/** No isolation is `undefined`, which is also what definitions of older copies of the SDK have. */
export function isolationOption(where: string, value: unknown): ProcessIsolation | undefined {
  if (value === undefined || value === 'none') return undefined;
  const given = value === 'process' ? { kind: value } : value;
  if (!isObject(given)) return refuse(where, 'isolation', value, EXPECTED);
  refuseUnknownOptions(`${where}: isolation`, given, OPTION_NAMES);
  const { kind, memory, reuse, grace } = given;
  if (kind !== 'process') refuse(where, 'isolation.kind', kind, '"process"');
  return Object.freeze({
    kind,
    memoryBytes: memory === undefined ? undefined : memoryOption(where, memory),
    maxJobs: reuseOption(where, reuse),
    graceMs: durationOption(where, 'isolation.grace', grace, DEFAULT_GRACE_MS),
  });
}

function memoryOption(where: string, value: unknown): number {
  const bytes = typeof value === 'number' ? value : typeof value === 'string' ? parseSize(value) : undefined;
  if (bytes !== undefined && bytes >= MIN_MEMORY_BYTES && bytes <= MAX_MEMORY_BYTES) return Math.round(bytes);
  const expected = `a size such as "512MiB" or "2GiB", or bytes, from ${MIN_MEMORY_BYTES / MIB}MiB to ${MAX_MEMORY_BYTES / MIB / 1024}GiB`;
  return refuse(where, 'isolation.memory', value, expected);
}

function parseSize(text: string): number | undefined {
  const match = SIZE_PATTERN.exec(text.trim());
  if (match === null) return undefined;
  return Number(match[1]) * (UNIT_BYTES[match[2] as string] as number);
}

function reuseOption(where: string, value: unknown): number {
  if (value === true) return DEFAULT_MAX_JOBS;
  if (value === false) return 1;
  return integerOption(where, 'isolation.reuse', value, { fallback: DEFAULT_MAX_JOBS, min: 1, max: MAX_JOBS });
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

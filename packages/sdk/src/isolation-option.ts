/**
 * The `isolation` of a job type: as given, and with every default filled in.
 *
 * `memory` limits the resident memory of the handler's process and all its descendants together. It is measured ten
 * times a second (see `watchdog.ts`), so a process may exceed it for that long. The JavaScript heap gets the same
 * limit by `--max-old-space-size`, which V8 enforces exactly.
 */
import type { Duration } from '@drover/protocol';
import { durationOption, integerOption, refuse, refuseUnknownOptions } from './options.js';

const MIB = 1024 * 1024;
const UNIT_BYTES: Readonly<Record<string, number>> = { MiB: MIB, GiB: 1024 * MIB };
const SIZE_PATTERN = /^(\d{1,7}(?:\.\d{1,3})?)(MiB|GiB)$/;
/** An idle process takes about 90 MiB, most of it Node itself, so a lower limit could only fail. */
const MIN_MEMORY_BYTES = 128 * MIB;
const MAX_MEMORY_BYTES = 1024 * 1024 * MIB;
/** A process ends after this many jobs, which bounds what handlers leak. */
const DEFAULT_MAX_JOBS = 1000;
const MAX_JOBS = 1_000_000;
/** Time between the abort of a handler's signal and the kill of its process. */
const DEFAULT_GRACE_MS = 5000;

export type MemorySize = number | `${number}${'MiB' | 'GiB'}`;

export type ProcessIsolationInput = {
  kind: 'process';
  /** Limit for the process and all its descendants, in bytes or such as `"512MiB"`. Default: Node's own limits. */
  memory?: MemorySize | undefined;
  /** Whether the process runs further jobs of its type, or how many in total. Default: 1000. */
  reuse?: boolean | number | undefined;
  /** How long a handler may continue after its signal was aborted. Then it is killed. Default: 5 s. */
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

/** Undefined means no isolation; definitions of older copies of the SDK have no such field. */
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

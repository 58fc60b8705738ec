/**
 * The registry of job types. Workers bring their definitions with their hello; every server keeps a copy of the table, which
 * it reads again when a hint of another server or its own beat finds a change. A server that missed the hint adds jobs by
 * name with the former definition for up to a beat.
 *
 * A hello that says nothing new costs no query: it is compared with the copy.
 */
import { type Hello, isStorableJson, LIMITS } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import type { KnownType, KnownTypes } from '../new-jobs/known-types.js';
import type { Events } from '../telemetry/log-events.js';
import {
  findConflicts,
  forgetType,
  hashOf,
  readTypes,
  readTypesState,
  type TypeRow,
  type TypeToRegister,
  writeTypes,
} from './type-store.js';

export type JobTypes = {
  /** The present copy, read on first use. It is replaced as a whole. */
  known(): Promise<KnownTypes>;
  /** The same without waiting; empty before the first use. */
  present(): KnownTypes;
  /** Reads the table again if it has changed. */
  refresh(): Promise<void>;
  /** What an open session says of its types. Once it resolves, jobs that are added by name follow it. */
  register(hello: Hello, types: readonly TypeToRegister[]): Promise<void>;
  /** `run`: runs the statement, by default on its own. */
  forget(type: string, run?: RunForget): Promise<Forgotten>;
};

export type Forgotten = 'forgotten' | 'unknown' | 'in_use';
type RunForget = (forget: (tx: Runner) => Promise<Forgotten>) => Promise<Forgotten>;

type JobTypesDeps = {
  db: Runner;
  events: Events;
  /** Called when this server has changed the table. */
  onChange(): void;
};

/** Conflicts that were told and are remembered, so that a fleet that reconnects does not repeat them. */
const TOLD_LIMIT = 10_000;
const SHOWN_NAMES = 3;

/** The definitions of a hello, one for each of its types. */
export function definitionsOf({ types, definitions = [] }: Hello): TypeToRegister[] {
  const given = new Map(definitions.map((definition) => [definition.type, definition]));
  return types.map((type) => {
    const definition = given.get(type);
    if (definition === undefined) return { type, hash: null, defaults: {} };
    const { defaults, payloadSchema } = definition;
    const stored = payloadSchema !== undefined && isStorableJson(payloadSchema) ? { payloadSchema } : {};
    return { type, hash: hashOf({ defaults, ...stored }), defaults, ...stored };
  });
}

export function createJobTypes({ db, events, onChange }: JobTypesDeps): JobTypes {
  let known: KnownTypes = new Map();
  let state = '';
  let reading = Promise.resolve();
  let firstReading: Promise<void> | undefined;
  let isFullTold = false;
  const told = new Set<string>();

  /** One after the other, so that an older answer does not replace a newer one. */
  function refresh(): Promise<void> {
    reading = reading.catch(() => {}).then(read);
    return reading;
  }

  async function read(): Promise<void> {
    const present = await readTypesState(db);
    if (present === state) return;
    known = new Map((await readTypes(db)).map((row) => [row.type, toKnown(row)]));
    state = present;
  }

  /** Reads the table on first use. */
  async function load(): Promise<void> {
    if (state !== '') return;
    firstReading ??= refresh().finally(() => {
      firstReading = undefined;
    });
    await firstReading;
  }

  async function register(hello: Hello, types: readonly TypeToRegister[]): Promise<void> {
    await load();
    // a type may be named twice
    const unique = new Map(types.map((definition) => [definition.type, definition]));
    const differing = [...unique.values()].filter(({ type, hash }) => isNews(known.get(type), hash));
    if (differing.length === 0) return;
    await writeTypes(db, hello.sessionId, differing);
    const before = state;
    await refresh();
    if (state !== before) onChange();
    tellFull(differing);
    const defined = differing.filter(({ hash }) => hash !== null);
    if (defined.length > 0) await tellConflicts(hello, defined);
  }

  function tellFull(types: readonly TypeToRegister[]): void {
    const missing = types.filter(({ type }) => !known.has(type));
    if (missing.length === 0 || isFullTold) return;
    isFullTold = true;
    events.tell('types.full', [{ limit: LIMITS.knownTypes, missing: missing.length, first: missing[0]?.type ?? '' }]);
  }

  async function tellConflicts({ sessionId, name }: Hello, types: readonly TypeToRegister[]): Promise<void> {
    const found = await findConflicts(db, sessionId, types);
    const own = new Map(types.map(({ type, hash }) => [type, hash]));
    const keyOf = (type: string, hashes: readonly string[]) =>
      [type, ...[...hashes, own.get(type) ?? ''].sort()].join(' ');
    const news = found.filter(({ type, hashes }) => !told.has(keyOf(type, hashes)));
    if (told.size + news.length > TOLD_LIMIT) told.clear();
    for (const { type, hashes } of news) told.add(keyOf(type, hashes));
    events.tell(
      'type.conflict',
      news.map(({ type, workers, count }) => ({ type, worker: name, others: workers.slice(0, SHOWN_NAMES), count })),
    );
  }

  return {
    present: () => known,
    async known() {
      await load();
      return known;
    },
    refresh,
    register,
    async forget(type, run = (forget) => forget(db)) {
      const outcome = await run((tx) => forgetType(tx, type));
      await refresh();
      if (outcome === 'forgotten') onChange();
      return outcome;
    },
  };
}

/** Whether a hello may change the table. */
function isNews(known: KnownType | undefined, hash: string | null): boolean {
  return known === undefined || (hash !== null && known.hash !== hash);
}

function toKnown({ type, hash, defaults, payload_schema }: TypeRow): KnownType {
  return { type, hash, defaults, payloadSchema: payload_schema === null ? undefined : JSON.parse(payload_schema) };
}

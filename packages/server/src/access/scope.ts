/** What a token is limited to: queues and types by patterns, in which `*` stands for any characters. */
import { DEFAULT_QUEUE, DroverError } from '@drover/protocol';

/** Null: all. */
type Patterns = { readonly globs: readonly string[]; readonly expression: RegExp } | null;

export type Scope = { readonly queues: Patterns; readonly types: Patterns };

/** What a job is, as far as scopes are concerned. `onFailure` is the type of a job that its failure adds to its queue. */
type Placed = {
  readonly type: string;
  readonly queue?: string | undefined;
  readonly options?: { readonly onFailure?: string | undefined } | undefined;
};

type Limited = { readonly name: string; readonly scope: Scope | undefined };

/** Undefined: it is not limited. */
export function scopeOf(queues: readonly string[] | null, types: readonly string[] | null): Scope | undefined {
  return queues === null && types === null ? undefined : { queues: patternsOf(queues), types: patternsOf(types) };
}

function patternsOf(globs: readonly string[] | null): Patterns {
  if (globs === null) return null;
  const escaped = globs.map((glob) => glob.replace(/[.:/@-]/g, '\\$&').replaceAll('*', '.*'));
  return { globs, expression: new RegExp(`^(?:${escaped.join('|')})$`) };
}

/** The patterns for `like any(…)`; null if all match. */
export function likePatterns(patterns: Patterns): string[] | null {
  return patterns === null ? null : patterns.globs.map((glob) => glob.replaceAll('_', '\\_').replaceAll('*', '%'));
}

/** The queue of the jobs of the schedule in `row`, by the defaults of their type. */
export const queueOfJobs = (row: string) => `coalesce(${row}.job->>'queue', (
    select k.defaults->>'queue'
    from drover.job_type k
    where k.type = ${row}.job->>'type' and ${row}.job->>'complete' is distinct from 'true'
  ), '${DEFAULT_QUEUE}')`;

export function allows({ queues, types }: Scope, queue: string, type: string): boolean {
  return matches(queues, queue) && matches(types, type);
}

export function matches(patterns: Patterns, name: string): boolean {
  return patterns === null || patterns.expression.test(name);
}

/** Throws forbidden with the first job that is outside of the scope. `field` names a field of the job in a place. */
export function requireInScope(
  { name, scope }: Limited,
  jobs: readonly Placed[],
  field: (name: string, place: number) => string,
): void {
  if (scope === undefined) return;
  for (const [place, { type, queue = DEFAULT_QUEUE, options }] of jobs.entries()) {
    if (!matches(scope.queues, queue)) throw outside(name, field('queue', place), queue, 'queues', scope.queues);
    if (!matches(scope.types, type)) throw outside(name, field('type', place), type, 'types', scope.types);
    const { onFailure } = options ?? {};
    if (onFailure !== undefined && !matches(scope.types, onFailure)) {
      throw outside(name, field('onFailure', place), onFailure, 'types', scope.types);
    }
  }
}

/** Throws forbidden unless all types in this queue, or all queues of this type, are in the scope. */
export function requireWhole({ name, scope }: Limited, kind: 'queue' | 'type', value: string): void {
  if (scope === undefined) return;
  const [own, other] = kind === 'queue' ? [scope.queues, scope.types] : [scope.types, scope.queues];
  if (!matches(own, value)) throw outside(name, kind, value, `${kind}s`, own);
  if (other === null) return;
  const all = kind === 'queue' ? 'types' : 'queues';
  throw new DroverError('forbidden', `"${name}" is limited to ${all}, this needs a token for all ${all} of ${value}`);
}

type WorkerOffer = {
  readonly types: readonly string[];
  readonly queues?: readonly string[] | undefined;
  /** They decide about jobs that others add by name. */
  readonly definitions?:
    | readonly { readonly defaults: { readonly queue?: string | undefined; readonly onFailure?: string | undefined } }[]
    | undefined;
};

/** Throws forbidden unless a worker takes only jobs in the scope, and defines none outside of it. */
export function requireWorkerInScope({ name, scope }: Limited, { types, queues, definitions = [] }: WorkerOffer): void {
  if (scope === undefined) return;
  const type = types.find((one) => !matches(scope.types, one));
  if (type !== undefined) throw outside(name, 'types', type, 'types', scope.types);
  if (scope.queues !== null && queues === undefined) {
    const message = `queues: expected a list, because "${name}" is limited to the queues ${scope.queues.globs.join(', ')}`;
    throw new DroverError('forbidden', message);
  }
  const queue = queues?.find((one) => !matches(scope.queues, one));
  if (queue !== undefined) throw outside(name, 'queues', queue, 'queues', scope.queues);
  for (const [place, { defaults }] of definitions.entries()) {
    const field = `definitions[${place}].defaults`;
    if (defaults.queue !== undefined && !matches(scope.queues, defaults.queue)) {
      throw outside(name, `${field}.queue`, defaults.queue, 'queues', scope.queues);
    }
    if (defaults.onFailure !== undefined && !matches(scope.types, defaults.onFailure)) {
      throw outside(name, `${field}.onFailure`, defaults.onFailure, 'types', scope.types);
    }
  }
}

function outside(name: string, field: string, value: string, kind: string, patterns: Patterns): DroverError {
  const expected = patterns?.globs ?? [];
  const message = `${field}: "${name}" is limited to the ${kind} ${expected.join(', ')}, got ${value}`;
  return new DroverError('forbidden', message, { field, value, [kind]: expected });
}

/**
 * What a verb did to one job. Every verb returns its changes, and its caller hands them to `publish` after the commit.
 *
 * Two verbs return none: adding a job (unless it is a child) and claiming one. Their callers know what they added or were
 * granted, and nothing listens for it yet.
 */
import type { JobState, JobVerb, StateAfter, StateBefore } from '@drover/protocol';
import { readPlainArray } from '../db/array-text.js';
import type { Runner } from '../db/database.js';
import type { Statement } from '../db/statement.js';
import type { TextRow, TextValue } from '../db/text-query.js';

export type Change = {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly verb: JobVerb;
  readonly from: JobState | 'new';
  readonly to: JobState;
  /** The attempts that the job has used up after the change. */
  readonly attempt: number;
  /** Milliseconds until a scheduled job is due. */
  readonly dueInMs: number | undefined;
  /** Set if the job stays running and its worker is asked to stop it. */
  readonly stop: StopRequest | undefined;
};

export type StopRequest = {
  readonly sessionId: string;
  readonly fence: number;
  readonly reason: 'cancelled' | 'expired';
};

/** The move of every row of a statement that does not name another; one that is not in the table does not compile. */
type UsualMove = { [Verb in JobVerb]: { verb: Verb; from: StateBefore<Verb>; to: StateAfter<Verb> } }[JobVerb];

/** SQL expressions for what is not usual (see UsualMove), and the ids if a row stands for several jobs. */
export type ChangeColumns = {
  ids?: string;
  attempt?: string;
  from?: string;
  to?: string;
  verb?: string;
  dueInMs?: string;
  stop?: string;
};
/** In the order in which they follow ids, type, queue and attempt. */
const COLUMNS = ['from', 'to', 'verb', 'dueInMs', 'stop'] as const;

/** The select list of a change of the job in `row`. */
export function changeOf(row: string, columns: ChangeColumns = {}): string {
  const { ids = `array[${row}.id]`, attempt = `${row}.attempt` } = columns;
  return [
    `${ids}, ${row}.type, ${row}.queue, ${attempt}`,
    ...COLUMNS.map((name) => `(${columns[name] ?? 'null'})::text`),
  ].join(', ');
}

/** Selects the changes in these CTEs. */
export function selectChanges(sources: Record<string, ChangeColumns>): string {
  return Object.entries(sources)
    .map(([cte, columns]) => `select ${changeOf(cte, columns)} from ${cte}`)
    .join('\nunion all\n');
}

/** For a running job whose worker is to stop it. */
export function stopRequest(row: string, verb: 'cancel' | 'expire', reason: StopRequest['reason']): ChangeColumns {
  return {
    ...{ from: `${row}.state`, to: `${row}.state`, verb: `'${verb}'` },
    stop: `json_build_object('sessionId', ${row}.session_id, 'fence', ${row}.fence, 'reason', '${reason}')`,
  };
}

/** Runs the statement of a verb, which selects changes. */
export async function runVerb(
  db: Runner,
  statement: Statement,
  values: readonly TextValue[],
  usual: UsualMove,
  sent?: readonly string[],
): Promise<Change[]> {
  const rows = await db.runTexts(statement, values);
  return toChanges(rows, usual, sent);
}

type ChangeRow = [
  ...[ids: string | null, type: string, queue: string, attempt: string],
  ...[from: JobState | null, to: JobState | null, verb: JobVerb | null, dueInMs: string | null, stop: string | null],
];

/** Without ids, a row stands for all that were `sent`. */
export function toChanges(rows: readonly TextRow[], usual: UsualMove, sent: readonly string[] = []): Change[] {
  return rows.flatMap((row) => {
    const [ids, type, queue, attempt, from, to, verb, dueInMs, stop] = row as ChangeRow;
    const common = {
      type,
      queue,
      verb: verb ?? usual.verb,
      from: from ?? usual.from,
      to: to ?? usual.to,
      attempt: Number(attempt),
      dueInMs: dueInMs === null ? undefined : Number(dueInMs),
      stop: stop === null ? undefined : (JSON.parse(stop) as StopRequest),
    };
    return (ids === null ? sent : readPlainArray(ids)).map((id) => ({ id, ...common }));
  });
}

/**
 * The audit trail. A change and its row are one transaction, so there is neither a change without a row nor a row without a
 * change. Requests that add jobs share statements; their rows are a parameter of the same statement (admission/insert-jobs).
 */
import { createHash } from 'node:crypto';
import { type AuditEntry, DroverError, isUuid, type ListAuditQuery, newId } from '@drover/protocol';
import type { Runner, TransactionRunner } from '../db/database.js';
import { sql } from '../db/statement.js';
import type { Caller } from './principal.js';

/** What was changed. Values are JSON without payloads: see digestOf. */
export type AuditNote = { target: string | null; before?: unknown; after?: unknown };

/** The columns of a row; `before` and `after` are JSON text. */
export type AuditRow = {
  id: string;
  principal: string;
  kind: AuditEntry['kind'];
  token_id: string | null;
  address: string;
  request_id: string | null;
  action: string;
  target: string | null;
  before: unknown;
  after: unknown;
  outcome: AuditEntry['outcome'];
};

/** Inserts the rows of the JSON list in this parameter. */
export const insertAudit = (parameter: `$${number}`) => `
insert into drover.audit (id, principal, kind, token_id, address, request_id, action, target, before, after, outcome)
select * from json_to_recordset(${parameter}) as r(id uuid, principal text, kind text, token_id uuid, address text,
  request_id text, action text, target text, before json, after json, outcome text)
on conflict (id) do nothing`;

const insert = sql('audit_insert')`${insertAudit('$1')}`;

const DELETE_BATCH = 5000;
const prune = sql('audit_prune')`
delete from drover.audit
where id = any(array(
  select id from drover.audit where at < now() - $1::double precision * interval '1 millisecond' order by at limit ${DELETE_BATCH}
))
returning 1`;

/** Unnamed, so that PostgreSQL plans it for the filters that are given. */
const list = sql('')`
select id::text as id, drover.iso(at) as at, principal, kind, token_id::text as "tokenId", address, request_id as "requestId",
  action, target, before, after, outcome
from drover.audit
where id < $1
  and ($2::text is null or principal = $2)
  and ($3::uuid is null or token_id = $3)
  and ($4::text is null or action = $4)
  and ($5::text is null or target = $5)
  and ($6::text is null or outcome = $6)
  and ($7::timestamptz is null or at >= $7)
  and ($8::timestamptz is null or at < $8)
order by id desc
limit $9`;

const AFTER_ALL_IDS = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Runs a change, and writes a row if the change notes something. */
export function audited<Result>(
  db: Pick<TransactionRunner, 'transaction'>,
  by: Caller,
  change: (tx: Runner, note: (note: AuditNote) => void) => Promise<Result>,
): Promise<Result> {
  return db.transaction(async (tx) => {
    let noted: AuditNote | undefined;
    const result = await change(tx, (note) => {
      noted = note;
    });
    if (noted) await writeAudit(tx, [auditRow(by, noted)]);
    return result;
  });
}

/**
 * The same for a change that opens its transaction itself. What the snapshot reads before and after it is noted, if it
 * differs. The first one takes no lock, because the change has an order of locks of its own.
 */
export function auditing(
  db: Pick<TransactionRunner, 'transaction'>,
  by: Caller,
  { target, snapshot }: { target: string; snapshot: (tx: Runner) => Promise<unknown> },
): Pick<TransactionRunner, 'transaction'> {
  return {
    transaction: (work, options) =>
      db.transaction(async (tx) => {
        const before = await snapshot(tx);
        const result = await work(tx);
        const after = await snapshot(tx);
        if (JSON.stringify(before) !== JSON.stringify(after)) {
          await writeAudit(tx, [auditRow(by, { target, before, after })]);
        }
        return result;
      }, options),
  };
}

export function auditRow(by: Caller, note: AuditNote, outcome: AuditRow['outcome'] = 'done'): AuditRow {
  const { principal, address, requestId, action } = by;
  const { target, before = null, after = null } = note;
  return {
    ...{ id: newId(), principal: principal.name, kind: principal.kind, token_id: principal.tokenId },
    ...{ address, request_id: requestId, action, target, before, after, outcome },
  };
}

export async function writeAudit(db: Runner, rows: readonly AuditRow[]): Promise<void> {
  await db.run(insert, [JSON.stringify(rows)]);
}

/** What a payload was, without its content. */
export function digestOf(json: string): { bytes: number; sha256: string } {
  return { bytes: Buffer.byteLength(json), sha256: createHash('sha256').update(json).digest('hex') };
}

/** Newest first. */
export async function listAudit(
  db: Runner,
  query: ListAuditQuery,
): Promise<{ items: AuditEntry[]; nextCursor: string | null }> {
  const { principal, token, action, target, outcome, from, to, limit, cursor = AFTER_ALL_IDS } = query;
  if (!isUuid(cursor)) throw new DroverError('invalid_cursor', 'cursor: expected the nextCursor of this list');
  const filters = [principal, token, action, target, outcome, from, to].map((value) => value ?? null);
  const rows = await db.run<AuditEntry>(list, [cursor, ...filters, limit + 1]);
  const items = rows.slice(0, limit);
  return { items, nextCursor: rows.length > limit ? (items.at(-1)?.id ?? null) : null };
}

export async function pruneAudit(db: Runner, retentionMs: number): Promise<void> {
  while ((await db.run(prune, [retentionMs])).length === DELETE_BATCH);
}

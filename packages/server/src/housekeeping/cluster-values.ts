/** Values of the whole cluster that the database keeps: settings that SQL functions need, and the cluster's id. */
import { DroverError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const setPayloadLimit = sql('set_payload_limit')`
insert into drover.setting (name, value)
values ('payloadLimit', to_json($1::bigint))
on conflict (name) do update set value = excluded.value`;

const clusterId = sql('cluster_id')`select value #>> '{}' as id from drover.setting where name = 'clusterId'`;

/** It never changes, so it is read once. Read on first use, because the database may be unavailable at the start. */
export function createClusterIdReader(db: Runner): () => Promise<string> {
  let known: string | undefined;
  return async () => {
    known ??= (await db.run<{ id: string }>(clusterId))[0]?.id;
    if (known === undefined)
      throw new DroverError('internal', 'drover.setting has no clusterId; it must not be removed');
    return known;
  };
}

/** Jobs added by SQL are limited by the setting of the server that started last. */
export async function publishPayloadLimit(db: Runner, bytes: number): Promise<void> {
  await db.run(setPayloadLimit, [bytes]);
}

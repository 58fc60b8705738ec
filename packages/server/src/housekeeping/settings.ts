/** Settings that live in the database because SQL functions need them. */
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const setPayloadLimit = sql('set_payload_limit')`
insert into drover.setting (name, value)
values ('payloadLimit', to_json($1::bigint))
on conflict (name) do update set value = excluded.value`;

/** Jobs added by SQL keep to the limit of the server that was started last. */
export async function publishPayloadLimit(db: Runner, bytes: number): Promise<void> {
  await db.run(setPayloadLimit, [bytes]);
}

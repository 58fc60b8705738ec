/** Job types with their definitions and the live workers that offer them. */
import { JOB_DEFAULT_NAMES, type JobType, type JobTypeWithSchema, LIMITS, SHOWN_WORKERS } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import { sql } from '../db/statement.js';

const COLUMNS = `
  t.type, t.hash, t.defaults, t.payload_schema is not null as has_schema, t.defined_at, t.first_seen_at, live.definitions`;

/** The CTE `live`: for each type that live workers offer, these workers by the hash of their definition. */
const live = (condition: string) => `by_hash as (
  select offered.type, offered.hash, count(*) as workers, array_agg(s.name order by s.name) as names
  from drover.session s
  cross join lateral unnest(s.types, s.definition_hashes) as offered(type, hash)
  where s.ended_at is null and ${condition}
  group by offered.type, offered.hash
), live as materialized (
  select type, json_agg(json_build_object('hash', hash, 'workers', workers, 'names', names[1:${SHOWN_WORKERS}])
    order by workers desc, hash) as definitions
  from by_hash
  group by type
)`;

const listStatement = sql('list_types')`
with ${live('true')}
select ${COLUMNS}
from drover.job_type t
left join live on live.type = t.type
order by t.type
limit ${2 * LIMITS.knownTypes}`;

const findStatement = sql('find_type')`
with ${live('offered.type = $1')}
select ${COLUMNS}, t.payload_schema::text as payload_schema
from drover.job_type t
left join live on true
where t.type = $1`;

type TypeRow = {
  type: string;
  hash: string | null;
  defaults: Record<string, unknown>;
  has_schema: boolean;
  defined_at: Date;
  first_seen_at: Date;
  definitions: { hash: string | null; workers: number; names: string[] }[] | null;
};

export async function listTypes(db: Runner): Promise<JobType[]> {
  return (await db.run<TypeRow>(listStatement)).map(toJobType);
}

export async function findType(db: Runner, type: string): Promise<JobTypeWithSchema | undefined> {
  const [row] = await db.run<TypeRow & { payload_schema: string | null }>(findStatement, [type]);
  if (!row) return undefined;
  const { payload_schema: schema } = row;
  return { ...toJobType(row), payloadSchema: schema === null ? null : (JSON.parse(schema) as unknown) };
}

function toJobType({ definitions, ...row }: TypeRow): JobType {
  const live = (definitions ?? []).map((definition) => ({ ...definition, current: definition.hash === row.hash }));
  return {
    type: row.type,
    defaults: Object.fromEntries(
      JOB_DEFAULT_NAMES.flatMap((name) => (name in row.defaults ? [[name, row.defaults[name]]] : [])),
    ),
    hasPayloadSchema: row.has_schema,
    workers: live.reduce((sum, { workers }) => sum + workers, 0),
    conflict: live.filter(({ hash }) => hash !== null).length > 1,
    definitions: live,
    firstSeenAt: row.first_seen_at.toISOString(),
    definedAt: row.defined_at.toISOString(),
  };
}

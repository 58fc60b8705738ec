/**
 * The schema `drover` as text, from PostgreSQL's catalog: what `pg_dump --schema-only` would say, but without a pg_dump of the
 * server's own version, which the embedded PostgreSQL does not bring. Partitions by day are left out.
 */
import type pg from 'pg';

const RELATIONS = `
select c.oid, c.relname as name, c.relkind as kind,
  coalesce(pg_get_partkeydef(c.oid), '') as partition_key, coalesce(array_to_string(c.reloptions, ', '), '') as options
from pg_class c
where c.relnamespace = 'drover'::regnamespace and c.relkind in ('r', 'p', 'v', 'S') and c.relname !~ '^job_history_\\d{8}$'
order by c.relname collate "C"`;

const COLUMNS = `
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as not_null, a.attidentity as identity,
  pg_get_expr(d.adbin, d.adrelid) as default_value
from pg_attribute a
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
order by a.attnum`;

const CONSTRAINTS = `
select conname as name, pg_get_constraintdef(oid) as definition
from pg_constraint
where conrelid = $1 and contype <> 'n'
order by conname collate "C"`;

const INDEXES = `
select pg_get_indexdef(i.indexrelid) as definition
from pg_index i
where i.indrelid = $1
order by 1`;

/** With the fingerprint of the body: the bodies can be read in the schema. */
const FUNCTIONS = `
select 'function ' || proname || '(' || pg_get_function_arguments(oid) || ') returns ' || pg_get_function_result(oid)
  || case when prosecdef then ' security definer' else '' end
  || coalesce(' set ' || array_to_string(proconfig, ', '), '') || ': ' || md5(prosrc) as definition
from pg_proc
where pronamespace = 'drover'::regnamespace
order by proname collate "C", pronargs`;

const TYPES = `
select t.typname as name, array_to_string(array_agg(e.enumlabel order by e.enumsortorder), ', ') as labels
from pg_type t
join pg_enum e on e.enumtypid = t.oid
where t.typnamespace = 'drover'::regnamespace
group by t.typname
order by t.typname collate "C"`;

type Relation = { oid: number; name: string; kind: string; partition_key: string; options: string };

export async function describeSchema(pool: pg.Pool): Promise<string> {
  const types = await pool.query<{ name: string; labels: string }>(TYPES);
  const relations = await pool.query<Relation>(RELATIONS);
  const functions = await pool.query<{ definition: string }>(FUNCTIONS);
  const parts = types.rows.map(({ name, labels }) => `type ${name}: ${labels}`);
  for (const relation of relations.rows) parts.push(await describeRelation(pool, relation));
  parts.push(functions.rows.map(({ definition }) => definition).join('\n'));
  return `${parts.join('\n\n')}\n`;
}

async function describeRelation(pool: pg.Pool, { oid, name, kind, partition_key, options }: Relation): Promise<string> {
  if (kind === 'S') return `sequence ${name}`;
  if (kind === 'v') {
    const view = await pool.query<{ definition: string }>('select pg_get_viewdef($1::oid) as definition', [oid]);
    return `view ${name}:\n${view.rows[0]?.definition}`;
  }
  const columns = await pool.query(COLUMNS, [oid]);
  const constraints = await pool.query<{ name: string; definition: string }>(CONSTRAINTS, [oid]);
  const indexes = await pool.query<{ definition: string }>(INDEXES, [oid]);
  return [
    `table ${name}${partition_key && ` partitioned by ${partition_key}`}${options && ` with (${options})`}`,
    ...columns.rows.map(describeColumn),
    ...constraints.rows.map((constraint) => `  constraint ${constraint.name}: ${constraint.definition}`),
    ...indexes.rows.map(({ definition }) => `  ${definition}`),
  ].join('\n');
}

function describeColumn(column: Record<string, unknown>): string {
  const { name, type, not_null, identity, default_value } = column;
  return `  ${name} ${type}${not_null ? ' not null' : ''}${identity ? ' identity' : ''}${default_value ? ` default ${default_value}` : ''}`;
}

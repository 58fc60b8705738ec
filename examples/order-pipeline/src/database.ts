/** The application's own tables, in the same PostgreSQL as Drover's. */
import pg from 'pg';

export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, allowExitOnIdle: true });
// A connection that breaks while it is idle; the pool opens another one.
pool.on('error', (error) => console.error(`database: ${error.message}`));

export const TABLES = `
  create table if not exists stock (sku text primary key, quantity integer not null check (quantity >= 0));
  create table if not exists orders (
    id uuid primary key,
    customer text not null,
    sku text not null references stock,
    quantity integer not null,
    cents integer not null,
    state text not null default 'placed'
  );
  create table if not exists payments (order_id uuid primary key references orders, idempotency_key text not null unique);
  create table if not exists invoices (order_id uuid primary key references orders, text text not null, sha256 text not null);
  insert into stock values ('tea', 100000), ('samovar', 1) on conflict do nothing;
`;

export type Connection = Pick<pg.PoolClient, 'query'>;

/** Commits what `work` does, or nothing of it. */
export async function transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await pool.connect();
  try {
    await connection.query('begin');
    const value = await work(connection);
    await connection.query('commit');
    return value;
  } catch (error) {
    await connection.query('rollback').catch(() => {});
    throw error;
  } finally {
    connection.release();
  }
}

/** Uses the database of a command directly, without a server. */
import { connectDatabase, type Database } from '../db/database.js';

export async function withDatabase<Value>(url: string, work: (db: Database) => Promise<Value>): Promise<Value> {
  const db = connectDatabase({ url, poolSize: 1 });
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

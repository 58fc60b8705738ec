import pg from 'pg';

/** Asks the database itself how many jobs are not finished, over one connection of its own. */
export async function openSqlStore(databaseUrl, countStatement) {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  return {
    unfinished: async () => Number((await client.query(countStatement)).rows[0].count),
    query: (statement, values) => client.query(statement, values),
    close: () => client.end(),
  };
}

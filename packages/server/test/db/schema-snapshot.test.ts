/** The schema is what the snapshot says: each change of it shows in a review. `npx vitest run schema-snapshot -u` writes it. */
import { afterAll, expect, it } from 'vitest';
import { migrate } from '../../src/db/migrate.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { describeSchema } from '../support/describe-schema.js';

let database: TestDatabase;
afterAll(() => database.drop());

/** The snapshot is of the embedded PostgreSQL; other versions format some definitions differently. */
const isEmbedded = process.env.DROVER_TEST_DATABASE_URL === undefined;

it.runIf(isEmbedded)('an empty database gets the schema of the snapshot', async () => {
  database = await createTestDatabase({ empty: true });
  await migrate(database.url);
  await expect(await describeSchema(database.pool)).toMatchFileSnapshot('./schema.snapshot');
});

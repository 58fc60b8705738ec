/** Runs once per deployment, before the new application starts: creates the tables and puts the schedules. */
import { createClient, defineSchedule } from '@drover/sdk';
import { pool, TABLES } from './database.js';
import { summarize } from './jobs.js';

const nightly = defineSchedule({
  name: 'orders-nightly',
  cron: '30 2 * * *',
  timeZone: 'Europe/Berlin',
  overlap: 'skip',
  job: summarize,
});

await pool.query(TABLES);
const drover = createClient();
await drover.schedules.sync([nightly], { group: 'orders' });
console.log('tables and schedules are up to date');
await drover.close();
await pool.end();

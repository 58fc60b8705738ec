/**
 * `node scripts/bench-schedules.mjs [schedules] [due] [seconds] [idle seconds]`: measures how late occurrences are
 * when many are due at the same time (or within so many seconds), and what idle schedules cost. One server in this
 * process on an embedded PostgreSQL, without workers. The CPU of PostgreSQL is measured on Linux only.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, setup } from './setup.mjs';

setup();
const require = createRequire(join(root, 'packages/server/package.json'));
const { createServer, migrate, startEmbeddedPostgres } = await import(join(root, 'packages/server/dist/index.js'));
const pg = require('pg');
const { pino } = require('pino');

const [total = 100_000, due = 10_000, seconds = 0, idleSeconds = 10] = process.argv.slice(2).map(Number);
const PREPARE_MS = 5000;

const folder = mkdtempSync(join(tmpdir(), 'drover-bench-'));
const postgres = await startEmbeddedPostgres({ dataDir: folder, settings: {} });
const pool = new pg.Pool({ connectionString: postgres.url });
await migrate(postgres.url);
const server = createServer(
  {
    ...{ port: 0, host: '127.0.0.1', databaseUrl: postgres.url, tokens: [], insecure: false, publicUrl: undefined },
    ...{ retentionMs: 86_400_000, payloadLimitBytes: 1_048_576, resultLimitBytes: 1_048_576 },
    ...{
      beatMs: 5000,
      leaseMs: 30_000,
      pollMs: 1000,
      maxPending: 10_000,
      requestMemoryBytes: 256 * 1024 ** 2,
      lateAfterMs: 10_000,
      poolSize: 8,
      logLevel: 'silent',
    },
  },
  { logger: pino({ level: 'silent' }) },
);
await server.start();
try {
  console.log(`idle with no schedules: ${await idleShare()}`);
  await putSchedules();
  console.log(`idle with ${total} schedules: ${await idleShare()}`);
  await measureInstant();
} finally {
  await server.stop();
  await pool.end();
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function idleShare() {
  const since = cpuCounter();
  await sleep(idleSeconds * 1000);
  const { serverMs, postgresMs } = since();
  const share = (ms) => `${(ms / 10 / idleSeconds).toFixed(2)} %`;
  return `server ${share(serverMs)}, PostgreSQL ${share(postgresMs)} of a core`;
}

/** Starts to count the CPU time of this process, which is the server, and of PostgreSQL. */
function cpuCounter() {
  const before = process.cpuUsage();
  const postgresBefore = postgresCpuMs();
  return () => {
    const { user, system } = process.cpuUsage(before);
    return { serverMs: (user + system) / 1000, postgresMs: postgresCpuMs() - postgresBefore };
  };
}

/**
 * The CPU time of live processes (the first number of schedstat, in nanoseconds) and of ended ones (known to their
 * parent, in hundredths of a second).
 */
function postgresCpuMs() {
  if (process.platform !== 'linux') return Number.NaN;
  const postmaster = readFileSync(`/proc/${postgres.pid}/stat`, 'utf8').split(' ');
  let total = 10 * (Number(postmaster[15]) + Number(postmaster[16]));
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      if (Number(pid) !== postgres.pid && parent !== postgres.pid) continue;
      total += Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
    } catch {
      // it has ended meanwhile
    }
  }
  return total;
}

/** Schedules that fire once a year, as rows like those of the API, with a distant next time. */
async function putSchedules() {
  const definition = {
    ...{
      timeZone: 'Europe/Berlin',
      gap: 'shift-forward',
      catchUp: 'last',
      catchUpWindow: 86_400_000,
      overlap: 'allow',
    },
    specs: [{ kind: 'cron', cron: '0 0 1 1 *' }],
  };
  await pool.query(
    `insert into drover.schedule (name, definition, job, handled_until, next_at, due_at)
     select 'bench' || n, $2, $3, date_trunc('milliseconds', now()), now() + interval '100 days', now() + interval '100 days'
     from generate_series(1, $1) n`,
    [total, JSON.stringify(definition), JSON.stringify({ type: 'bench', payload: '{}' })],
  );
  await pool.query('vacuum analyze drover.schedule');
}

async function measureInstant() {
  const instant = new Date(Math.ceil((Date.now() + PREPARE_MS) / 1000) * 1000);
  await pool.query(
    `update drover.schedule s set next_at = x.at, due_at = x.at, handled_until = now(), revision = revision + 1, version = 2,
       definition = jsonb_set(definition::jsonb, '{specs,1}', jsonb_build_object('kind', 'times', 'at', jsonb_build_array(drover.iso(x.at))))::json
     from (
       select id, $2::timestamptz + floor(random() * $3 * 1000) * interval '1 millisecond' as at
       from drover.schedule order by md5(name) limit $1
     ) x
     where x.id = s.id`,
    [due, instant, seconds],
  );
  const spareMs = instant.getTime() - Date.now();
  // an occurrence that is due before its schedule exists is late by the preparation
  if (spareMs < 0) console.log(`NOT VALID: the preparation ended ${-spareMs} ms after the instant`);
  await sleep(spareMs - 500);
  const since = cpuCounter();
  let fired = 0;
  for (const deadline = Date.now() + 60_000 + 1000 * seconds; fired < due && Date.now() < deadline; await sleep(200)) {
    fired = (await pool.query('select count(*)::int as n from drover.occurrence')).rows[0].n;
  }
  const { serverMs, postgresMs } = since();
  const { rows } = await pool.query(
    `select count(*)::int as occurrences, extract(epoch from max(due_at) - min(due_at))::int as span, count(distinct job_id)::int as jobs,
       round((percentile_cont(0.5) within group (order by extract(epoch from decided_at - due_at)))::numeric * 1000) as p50,
       round((percentile_cont(0.99) within group (order by extract(epoch from decided_at - due_at)))::numeric * 1000) as p99,
       round(max(extract(epoch from decided_at - due_at)) * 1000) as worst
     from drover.occurrence where state = 'fired'`,
  );
  const { occurrences, span, jobs, p50, p99, worst } = rows[0];
  console.log(`CPU for it: server ${(serverMs / 1000).toFixed(2)} s, PostgreSQL ${(postgresMs / 1000).toFixed(2)} s`);
  console.log(
    `${due} due within ${span} s: ${occurrences} fired, ${jobs} jobs; lateness p50 ${p50} ms, p99 ${p99} ms, worst ${worst} ms`,
  );
}

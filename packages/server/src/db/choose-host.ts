/**
 * Chooses one of several PostgreSQL servers. A connection string may name several hosts
 * (`postgres://user@a:5432,b:5432/db`); the writable one with the highest timeline is chosen. "Not in recovery" alone
 * is not enough: a primary that was cut off from its supervisor also says so, and reads from it are stale. So a lower
 * timeline than seen before, or another cluster (system identifier), is never accepted.
 */
import { splitHosts } from '../base/split-hosts.js';
import { DatabaseClient } from './database-client.js';

export type Candidate = { url: string; timeline: number; systemId: string };

const PROBE_TIMEOUT_MS = 3000;

const PROBE = `
select pg_is_in_recovery() as standby,
  case when pg_is_in_recovery() then 0
    else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
  end as timeline,
  (select system_identifier::text from pg_control_system()) as "systemId"`;

/** The best candidate, given what was seen before. Pure. */
export function bestOf(candidates: readonly Candidate[], seen: Candidate | undefined): Candidate | undefined {
  const acceptable = candidates.filter(
    ({ timeline, systemId }) => !seen || (systemId === seen.systemId && timeline >= seen.timeline),
  );
  return [...acceptable].sort((a, b) => b.timeline - a.timeline)[0];
}

/** Asks all hosts at once. Leaves out standbys and hosts that do not answer in time. */
export async function findWritable(urls: readonly string[]): Promise<Candidate[]> {
  const answers = await Promise.all(urls.map(probe));
  return answers.filter((answer): answer is Candidate => answer !== undefined);
}

async function probe(url: string): Promise<Candidate | undefined> {
  const client = new DatabaseClient({
    connectionString: url,
    connectionTimeoutMillis: PROBE_TIMEOUT_MS,
    query_timeout: PROBE_TIMEOUT_MS,
    application_name: 'drover probe',
  });
  try {
    await client.connect();
    const { rows } = await client.query<{ standby: boolean; timeline: number; systemId: string }>(PROBE);
    const [row] = rows;
    return row && !row.standby ? { url, timeline: row.timeline, systemId: row.systemId } : undefined;
  } catch {
    // a host that does not answer is not a candidate; the caller reports if there is none
    return undefined;
  } finally {
    // not awaited: an unreachable host would delay us
    void client.endWithin(PROBE_TIMEOUT_MS);
  }
}

/** The connection string of the host to use for a single operation. */
export async function chooseHost(connectionString: string): Promise<string> {
  const hosts = splitHosts(connectionString);
  if (hosts.length === 1) return connectionString;
  const best = bestOf(await findWritable(hosts), undefined);
  if (!best) {
    const names = hosts.map((host) => new URL(host).host).join(', ');
    throw new Error(
      `databaseUrl: expected a PostgreSQL that can be reached and takes changes, got none among ${names}`,
    );
  }
  return best.url;
}

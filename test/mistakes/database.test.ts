/** Databases and data folders with which no server can start. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, inject } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../packages/server/test/support/database.js';
import { describeCommandLines } from './support/command-lines.js';

const ROLE = `mistaken_${process.pid}`;

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  await database.pool.query(`create role ${ROLE} login password 'secret'`);
  folder = await mkdtemp(join(tmpdir(), 'drover-mistakes-'));
  await writeFile(join(folder, 'file'), '');
});
afterAll(async () => {
  await database.pool.query(`drop role ${ROLE}`);
  await database.drop();
  await rm(folder, { recursive: true });
});

/** The address of the database, changed. */
function urlWith(changes: Partial<Record<'username' | 'password' | 'hostname' | 'port' | 'pathname', string>>): string {
  return Object.assign(new URL(database.url), changes).href;
}
const place = () => new URL(inject('databaseUrl')).host;
const server = (url: () => string) => () => ['server', '--insecure', '--port', '0', '--database-url', url()];

describeCommandLines('the database', [
  [
    'PostgreSQL does not run',
    server(() => 'postgres://app:secret@127.0.0.1:1/shop'),
    'databaseUrl: cannot connect to PostgreSQL at 127.0.0.1:1: connection refused; check that it runs there and accepts connections',
  ],
  [
    'a host that does not exist',
    server(() => 'postgres://app@db.invalid/shop'),
    'databaseUrl: cannot connect to PostgreSQL at db.invalid:5432: there is no host "db.invalid"; check its name',
  ],
  [
    'a wrong password',
    server(() => urlWith({ username: ROLE, password: 'wrong' })),
    () => `databaseUrl: cannot connect to PostgreSQL at ${place()}: the password of the user "${ROLE}" is wrong`,
  ],
  [
    'a database that does not exist',
    server(() => urlWith({ pathname: '/shop' })),
    () =>
      `databaseUrl: cannot connect to PostgreSQL at ${place()}: there is no database "shop"; create it: create database "shop" owner "drover"`,
  ],
  [
    'no right to create the schema',
    server(() => urlWith({ username: ROLE, password: 'secret' })),
    () =>
      `the user "${ROLE}" may not create the schema of Drover in the database "${database.name}": run as an administrator: grant create on database "${database.name}" to "${ROLE}"`,
  ],
  [
    'none of several hosts',
    server(() => 'postgres://app@127.0.0.1:1,127.0.0.1:2/shop'),
    'databaseUrl: expected a PostgreSQL that can be reached and takes changes, got none among 127.0.0.1:1, 127.0.0.1:2',
  ],
]);

describeCommandLines('the embedded database', [
  [
    'a folder below a file',
    () => ['server', '--embedded', '--insecure', '--port', '0', '--data-dir', join(folder, 'file/data')],
    () => `dataDir: cannot use the folder ${folder}/file/data: a part of the path is not a folder`,
  ],
  [
    'a file instead of a folder',
    () => ['migrate', '--embedded', '--data-dir', join(folder, 'file')],
    () => `dataDir: cannot use the folder ${folder}/file: a part of the path is not a folder`,
  ],
]);

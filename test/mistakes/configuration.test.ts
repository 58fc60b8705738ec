/** Settings from flags, environment variables and files. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROLES } from '@drover/protocol';
import { afterAll, beforeAll } from 'vitest';
import { describeCommandLines } from './support/command-lines.js';

const TOKEN = '0123456789abcdef';
/** Nothing listens there. */
const DATABASE = { DROVER_DATABASE_URL: 'postgres://127.0.0.1:1/x' };

let folder: string;
const FILES: Record<string, string> = {
  'broken.json': '{\n  "port": 8420,\n  "tokens": "admin:0123456789abcdef",,\n}',
  'list.json': '[]',
  'unknown.json': '{"prot": 8420}',
  'open.json': '{"port": 0}',
  'nothing.mjs': 'export const port = 8420;',
  'throws.mjs': 'throw new Error("no such secret");',
  'settings.yaml': 'port: 8420',
  'a-file': '',
};
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drover-mistakes-'));
  for (const [name, content] of Object.entries(FILES)) await writeFile(join(folder, name), content, { mode: 0o600 });
  await chmod(join(folder, 'open.json'), 0o666);
});
afterAll(() => rm(folder, { recursive: true }));
const file = (name: string) => () => ['queues', '--config', join(folder, name)];

describeCommandLines('values', [
  [
    'a port that is not a number',
    ['server', '--port', 'eighty'],
    'port: expected a whole number from 0 to 65535, got "eighty" (from flag --port)',
  ],
  [
    'a port out of range',
    ['server'],
    'port: expected a whole number from 0 to 65535, got "70000" (from environment variable DROVER_PORT)',
    { DROVER_PORT: '70000' },
  ],
  [
    'a host with a scheme',
    ['server', '--host', 'https://0.0.0.0'],
    'host: expected a host name or an IP address, got "https://0.0.0.0" (from flag --host)',
  ],
  [
    'an address of MySQL',
    ['server'],
    'databaseUrl: expected an address that starts with postgres:// or postgresql:// (from environment variable DROVER_DATABASE_URL)',
    { DROVER_DATABASE_URL: 'mysql://root:secret@db/x' },
  ],
  [
    'a public address without a scheme',
    ['server', '--public-url', 'drover.internal'],
    'publicUrl: expected an address that starts with http:// or https://, got "drover.internal" (from flag --public-url)',
  ],
  [
    'a duration in words',
    ['server', '--retention', 'two weeks'],
    'retention: expected a duration of at least 1s such as "30s", "10m", "2h", "14d", or milliseconds, got "two weeks" (from flag --retention)',
  ],
  [
    'a size without a unit that exists',
    ['server', '--payload-limit', '1XB'],
    'payloadLimit: expected a size from 1 to 33554432 bytes such as "512KiB", "1MiB", or a number of bytes, got "1XB" (from flag --payload-limit)',
  ],
  [
    'a lease shorter than its beats',
    ['server', '--insecure', '--lease', '6s'],
    'lease: expected at least 3 beats of 5s, got 6s',
    DATABASE,
  ],
  [
    'an unknown log level',
    ['server', '--log-level', 'verbose'],
    'logLevel: expected one of trace, debug, info, warn, error, fatal, silent, got "verbose" (from flag --log-level)',
  ],
  [
    'a switch that is neither on nor off',
    ['server'],
    'insecure: expected true or false, got "yes" (from environment variable DROVER_INSECURE)',
    { DROVER_INSECURE: 'yes' },
  ],
  [
    'a worker with half a slot',
    ['worker', 'jobs.mjs', '--slots', '0.5'],
    'slots: expected a whole number from 1 to 10000, got "0.5" (from flag --slots)',
  ],
  [
    'a worker module that does not exist',
    ['worker', 'jobs.mjs'],
    'module: expected a JavaScript or TypeScript file that exports jobs, got /jobs.mjs: it does not exist',
  ],
  [
    'a queue with a space',
    ['worker', 'jobs.mjs', '--queues', 'a b'],
    'queues: expected one or more, separated by commas: a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, got "a b" (from flag --queues)',
  ],
]);

describeCommandLines('what a server needs', [
  [
    'no database',
    ['server', '--insecure'],
    'databaseUrl: expected the address of your PostgreSQL (DROVER_DATABASE_URL or --database-url), got none; to run an embedded PostgreSQL in .drover instead, use --embedded (DROVER_EMBEDDED=true)',
  ],
  [
    'a database and an embedded one',
    ['server', '--embedded', '--insecure'],
    'embedded: expected either this or databaseUrl, got both',
    DATABASE,
  ],
  [
    'a host that others reach, without TLS',
    ['server', '--host', '0.0.0.0'],
    'host: 0.0.0.0 can be reached from other machines, and the server has no TLS: set tlsCert and tlsKey, or --behind-tls-proxy if a proxy ends TLS, or --insecure to send tokens and payloads unencrypted',
    { ...DATABASE, DROVER_TOKENS: `admin:${TOKEN}` },
  ],
  [
    'a certificate without its key',
    ['server', '--tls-cert', 'server.pem', '--insecure'],
    'tlsKey: expected the path of a file, because tlsCert is set; got none',
    DATABASE,
  ],
  [
    'a certificate that does not exist',
    ['server', '--tls-cert', 'none.pem', '--tls-key', 'none.key', '--insecure'],
    'tlsCert: cannot read none.pem: it does not exist',
    DATABASE,
  ],
  [
    'a proxy without its address',
    ['server', '--behind-tls-proxy', '--insecure'],
    'publicUrl: expected the https:// address of the proxy, because behindTlsProxy is set; got none',
    DATABASE,
  ],
]);

describeCommandLines('tokens', [
  [
    'a token without a role',
    ['server'],
    `tokens: expected "role:token,role:token", or in a file a list of { name, role, token }; roles are ${ROLES.join(', ')}, got no known role at place 1 (from environment variable DROVER_TOKENS)`,
    { ...DATABASE, DROVER_TOKENS: TOKEN },
  ],
  [
    'an unknown role',
    ['server'],
    `tokens: expected "role:token,role:token", or in a file a list of { name, role, token }; roles are ${ROLES.join(', ')}, got no known role at place 1 (from environment variable DROVER_TOKENS)`,
    { ...DATABASE, DROVER_TOKENS: `superuser:${TOKEN}` },
  ],
  [
    'a misspelt role',
    ['server'],
    `tokens: expected "role:token,role:token", or in a file a list of { name, role, token }; roles are ${ROLES.join(', ')}, got the role "cleint" (did you mean client?) at place 1 (from environment variable DROVER_TOKENS)`,
    { ...DATABASE, DROVER_TOKENS: `cleint:${TOKEN}` },
  ],
  [
    'a token that is too short',
    ['server'],
    'tokens: "admin-1" has 6 characters, expected at least 16: make one with `openssl rand -base64 32`',
    { ...DATABASE, DROVER_TOKENS: 'admin:secret' },
  ],
  [
    'the same token twice',
    ['server'],
    'tokens: "worker-2" is the same as another one',
    { ...DATABASE, DROVER_TOKENS: `admin:${TOKEN},worker:${TOKEN}` },
  ],
  [
    'a token with a space',
    ['queues'],
    'token: expected letters, digits and signs, without spaces and commas; see character 7',
    { DROVER_TOKEN: 'Bearer abc' },
  ],
]);

describeCommandLines('configuration files', [
  [
    'a file that does not exist',
    file('missing.json'),
    () => `cannot read configuration file ${folder}/missing.json: it does not exist`,
  ],
  [
    'a file that is not JSON',
    file('broken.json'),
    () =>
      `configuration file ${folder}/broken.json is not valid JSON: line 3, column 38: expected a key in double quotes`,
  ],
  ['a list', file('list.json'), () => `configuration file ${folder}/list.json: expected an object of settings`],
  [
    'an unknown setting',
    file('unknown.json'),
    () => `configuration file ${folder}/unknown.json: unknown setting "prot"; did you mean "port"?`,
  ],
  [
    'a file that others can change',
    file('open.json'),
    () =>
      `configuration file ${folder}/open.json can be changed by other users (mode 666): run: chmod go-w ${folder}/open.json`,
  ],
  [
    'a module without a default export',
    file('nothing.mjs'),
    () => `configuration file ${folder}/nothing.mjs has no default export`,
  ],
  [
    'a module that throws',
    file('throws.mjs'),
    () => `cannot load configuration file ${folder}/throws.mjs: no such secret`,
  ],
  [
    'a file of another kind',
    file('settings.yaml'),
    () => `configuration file ${folder}/settings.yaml: expected a name that ends in .json or .mjs`,
  ],
  ['a folder', file('.'), () => `configuration file ${folder}: expected a name that ends in .json or .mjs`],
]);

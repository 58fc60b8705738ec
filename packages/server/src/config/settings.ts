/**
 * Every setting of Drover, once. The configuration file, the environment variables and the flags of the commands are
 * derived from this table, and the reference in the docs is tested against it.
 *
 * The key `payloadLimit` is `payloadLimit` in a file, `DROVER_PAYLOAD_LIMIT` in the environment and `--payload-limit`
 * as a flag.
 */
import { LIMITS } from '@drover/protocol';
import { LOG_LEVELS } from './server-config.js';
import {
  address,
  addressRange,
  boolean,
  bytes,
  clients,
  databaseAddress,
  duration,
  integer,
  listOf,
  name,
  oneOf,
  text,
  tokens,
  type ValueKind,
} from './value-kinds.js';

export const COMMANDS = ['dev', 'server', 'node', 'worker', 'migrate', 'client'] as const;
/** `client` stands for every command that calls a running server. */
export type Command = (typeof COMMANDS)[number];

export type Setting<Value = unknown> = {
  kind: ValueKind<Value>;
  /** As a user would write it. Absent: no value unless given. */
  default?: string | number | boolean | readonly string[];
  description: string;
  /** The commands that have it as a flag. */
  commands: readonly Command[];
  /** Never printed. */
  secret?: boolean;
  /** The path of a file that others must not be able to read. */
  isPrivateFile?: boolean;
  /** False: not available as a flag, because every user of the machine can read command lines. */
  flag?: boolean;
};

const path = text('a path', (value) => value.length > 0 && !value.includes('\0'));
const servers = ['dev', 'server', 'node'] as const;
const databases = ['dev', 'server', 'node', 'migrate'] as const;
const workers = ['worker', 'node'] as const;
/** Those that call a server over its address. */
const callers = ['dev', 'node', 'worker', 'client'] as const;
const processes = ['dev', 'server', 'node', 'worker'] as const;

export const SETTINGS = {
  port: {
    kind: integer(0, 65_535),
    default: 8420,
    description: 'Port of the HTTP API; 0 means any free port.',
    commands: servers,
  },
  host: {
    kind: text('a host name or an IP address', (value) => /^[\w.:[\]-]+$/.test(value)),
    default: '127.0.0.1',
    description: 'Address to listen on.',
    commands: servers,
  },
  publicUrl: {
    kind: address('http:', 'https:'),
    description: 'The address at which workers reach this server. Default: from host and port.',
    commands: servers,
  },
  tlsCert: {
    kind: path,
    description: 'File with the certificate of the server and its chain, as PEM. With it the server speaks only TLS.',
    commands: servers,
  },
  tlsKey: {
    kind: path,
    description: 'File with the private key of `tlsCert`, as PEM without a passphrase.',
    commands: servers,
    isPrivateFile: true,
  },
  tlsClientCa: {
    kind: path,
    description: 'File with CAs, as PEM. With it every connection needs a client certificate of one of them.',
    commands: servers,
  },
  tlsClients: {
    kind: clients(),
    default: [],
    description: 'Who may use the API by a client certificate: `role:SAN,role:SAN`, or a list of { name, role, san }.',
    commands: servers,
    flag: false,
  },
  tlsMin: {
    kind: oneOf(['1.2', '1.3'] as const),
    default: '1.3',
    description: 'Lowest version of TLS.',
    commands: servers,
  },
  behindTlsProxy: {
    kind: boolean(),
    default: false,
    description: 'A proxy in front of the server ends TLS. Needs an https:// `publicUrl`.',
    commands: servers,
  },
  databaseUrl: {
    kind: databaseAddress(),
    description: 'The PostgreSQL database. `dev` needs none: it runs an embedded one.',
    commands: databases,
    secret: true,
  },
  embedded: {
    kind: boolean(),
    default: false,
    description: 'Run an embedded PostgreSQL in `dataDir` instead of using `databaseUrl`.',
    commands: ['server', 'node', 'migrate'],
  },
  dataDir: {
    kind: path,
    default: '.drover',
    description: 'Folder of the embedded PostgreSQL.',
    commands: databases,
  },
  tokens: {
    kind: tokens(),
    default: [],
    description: 'Who may use the API: `role:token,role:token`, or a list of { name, role, token } in a file.',
    commands: servers,
    secret: true,
    flag: false,
  },
  trustedProxies: {
    kind: listOf(addressRange()),
    description: 'Proxies, as addresses or ranges, whose X-Forwarded-For says the address of the client.',
    commands: servers,
  },
  wrongTokenLimit: {
    kind: integer(1, 1_000_000),
    default: 60,
    description: 'Wrong tokens of one address in a minute, after which it gets status 429.',
    commands: servers,
  },
  auditEnqueues: {
    kind: boolean(),
    default: false,
    description: 'Write a row of the audit trail for each request that adds jobs, too.',
    commands: servers,
  },
  auditRetention: {
    kind: duration(1000),
    default: '400d',
    description: 'How long the audit trail and revoked tokens are kept.',
    commands: servers,
  },
  insecure: {
    kind: boolean(),
    default: false,
    description: 'Start without credentials (everyone may do everything), and off loopback without TLS.',
    commands: servers,
  },
  retention: {
    kind: duration(1000),
    default: '14d',
    description: 'How long finished jobs are kept.',
    commands: servers,
  },
  payloadLimit: {
    kind: bytes(1, LIMITS.requestBytes / 2),
    default: `${LIMITS.payloadBytes / 1024 ** 2}MiB`,
    description: 'Largest payload of a job, as JSON text; a larger one is refused with status 413.',
    commands: servers,
  },
  resultLimit: {
    kind: bytes(1, LIMITS.frameBytes / 2),
    default: `${LIMITS.resultBytes / 1024 ** 2}MiB`,
    description: 'Largest result of a job, as JSON text.',
    commands: servers,
  },
  beat: {
    kind: duration(50, 60_000),
    default: '5s',
    description: 'Interval of the heartbeats of workers and servers.',
    commands: servers,
  },
  lease: {
    kind: duration(150, 3_600_000),
    default: '30s',
    description: 'How long a worker without heartbeats keeps its jobs; at least three beats.',
    commands: servers,
  },
  poll: {
    kind: duration(10, 60_000),
    default: '250ms',
    description: 'How often a server checks for ready jobs without a notification.',
    commands: servers,
  },
  lateAfter: {
    kind: duration(0),
    default: '10s',
    description: 'An occurrence of a schedule that is fired later than this is counted and logged as late.',
    commands: servers,
  },
  maxPending: {
    kind: integer(1, 10_000_000),
    default: 50_000,
    description: 'Limit of jobs in the memory of one server; above it new jobs are refused with status 429.',
    commands: servers,
  },
  requestMemory: {
    kind: bytes(1024 ** 2, 1024 ** 4),
    default: '256MiB',
    description: 'Memory for the requests that one server handles at once; above it they are refused with status 429.',
    commands: servers,
  },
  tokenMemory: {
    kind: bytes(1024 ** 2, 1024 ** 4),
    default: '128MiB',
    description: 'The part of `requestMemory` that the requests of one caller may take on one server.',
    commands: servers,
  },
  tokenRequests: {
    kind: integer(0, 1_000_000),
    default: 0,
    description: 'Requests of one caller per second on one server, above which it gets status 429; 0: no limit.',
    commands: servers,
  },
  poolSize: {
    kind: integer(1, 1000),
    default: 4,
    description: 'Connections per pool of a server.',
    commands: servers,
  },
  url: {
    kind: listOf(address('http:', 'https:')),
    default: ['http://127.0.0.1:8420'],
    description: 'The servers to connect to, separated by commas.',
    commands: ['worker', 'client'],
  },
  token: {
    kind: text('a string', (value) => value.length > 0),
    description: 'The token for the server. Prefer the environment variable: other users can see flags.',
    commands: ['worker', 'client'],
    secret: true,
  },
  ca: {
    kind: path,
    description: "File with the CAs of the servers' certificates, as PEM. Default: the CAs of the system.",
    commands: callers,
  },
  cert: {
    kind: path,
    description: 'File with the client certificate for servers with `tlsClientCa`, as PEM.',
    commands: callers,
  },
  key: {
    kind: path,
    description: 'File with the private key of `cert`, as PEM without a passphrase.',
    commands: callers,
    isPrivateFile: true,
  },
  slots: {
    kind: integer(1, LIMITS.workerSlots),
    default: 10,
    description: 'Jobs that one worker runs at the same time.',
    commands: workers,
  },
  queues: {
    kind: listOf(name()),
    description: 'The queues to take jobs from, separated by commas. Default: all queues.',
    commands: workers,
  },
  workerName: {
    kind: name(),
    description: 'Name of the worker. Default: `pid@host`.',
    commands: workers,
  },
  prefetch: {
    kind: integer(0, LIMITS.prefetch),
    description: 'Jobs that a worker holds beyond its slots. Default: adaptive.',
    commands: workers,
  },
  ignorePause: {
    kind: boolean(),
    default: false,
    description: 'The worker ignores pauses of itself, its queues, its types and the cluster.',
    commands: workers,
  },
  journalDir: {
    kind: path,
    description:
      'Folder for the journal of started jobs and outcomes. One folder per worker, kept across restarts. Default: no journal.',
    commands: workers,
  },
  discardDamagedJournal: {
    kind: boolean(),
    default: false,
    description: 'Move a damaged journal aside and start with its readable part. By default the worker does not start.',
    commands: workers,
  },
  onLeaseLost: {
    kind: oneOf(['exit', 'abort'] as const),
    default: 'exit',
    description:
      'What to do if handlers ignore their abort signals after the lease is lost: end the process (exit) or not (abort).',
    commands: workers,
  },
  drainTimeout: {
    kind: duration(0),
    default: '30s',
    description: 'How long a stopping worker waits for its running jobs.',
    commands: ['worker', 'node', 'dev'],
  },
  logLevel: {
    kind: oneOf(LOG_LEVELS),
    default: 'info',
    description: 'Lowest level to log.',
    commands: processes,
  },
  logFormat: {
    kind: oneOf(['auto', 'json', 'pretty']),
    default: 'auto',
    description: '`auto` is `pretty` on a terminal and `json` elsewhere.',
    commands: processes,
  },
} as const satisfies Record<string, Setting>;

export type SettingKey = keyof typeof SETTINGS;
export const SETTING_KEYS = Object.keys(SETTINGS) as SettingKey[];

type ValueOf<Key extends SettingKey> = (typeof SETTINGS)[Key]['kind'] extends ValueKind<infer Value> ? Value : never;
type HasDefault<Key extends SettingKey> = (typeof SETTINGS)[Key] extends { default: unknown } ? true : false;

/** All settings, parsed. Those without a default may be undefined. */
export type Settings = {
  [Key in SettingKey]: HasDefault<Key> extends true ? ValueOf<Key> : ValueOf<Key> | undefined;
};

/** The setting with its general type, for code that iterates over the table. */
export function settingOf(key: SettingKey): Setting {
  return SETTINGS[key];
}

/** `payloadLimit` → `DROVER_PAYLOAD_LIMIT` */
export function variableName(key: SettingKey): string {
  return `DROVER_${key.replace(/[A-Z]/g, '_$&').toUpperCase()}`;
}

/** `payloadLimit` → `--payload-limit` */
export function flagName(key: SettingKey): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function settingsOf(command: Command): SettingKey[] {
  return SETTING_KEYS.filter((key) => settingOf(key).commands.includes(command));
}

/** `drover token …`: create, list, rotate and revoke tokens; `bootstrap` makes one without a server. */
import { newTokenSchema, rotateTokenSchema, type Token, type TokenWithSecret } from '@drover/protocol';
import type { Command } from 'commander';
import { type Caller, UNLIMITED } from '../../access/principal.js';
import { checked, checkedInput } from '../checked-input.js';
import { addSettingFlags, type CliContext, type GlobalOptions, settingsFor } from '../context.js';
import { createLogger } from '../logger.js';
import { type Cell, formatTable, printJson, printLine } from '../output.js';
import { logWarnings } from '../setting-warnings.js';
import { findId } from '../short-ids.js';
import { Teardown } from '../stop-signal.js';
import { formatTime, type TextFormat } from '../text-format.js';
import { show, withClient } from '../with-client.js';

type CreateFlags = { role: string; expires?: string; queues?: string; types?: string; payloads: boolean };
type RotateFlags = { overlap?: string; expires?: string };

const EXPIRES = 'how long it is valid: a duration, or never';
const FIRST_NAME = 'bootstrap';
/** The caller in the audit trail. */
const BOOTSTRAP: Caller = {
  principal: { name: FIRST_NAME, role: 'admin', kind: 'database', ...UNLIMITED },
  ...{ address: 'database', requestId: null, action: 'createToken' },
};

export function addTokenCommands(program: Command, context: CliContext): void {
  const token = program.command('token').description('Who may call the servers. Needs the role admin.');
  addCreate(token, context);
  addList(token, context);
  addRotate(token, context);
  addRevoke(token, context);
  addBootstrap(token, context);
}

function addCreate(token: Command, context: CliContext): void {
  const command = token
    .command('create')
    .description('Create a token and print its secret, which is shown only once.')
    .argument('<name>', 'name of the token')
    .requiredOption('--role <role>', 'what it may do')
    .option('--expires <duration>', `${EXPIRES} [90d]`)
    .option('--queues <patterns>', 'limit it to these queues, such as mail.*,billing')
    .option('--types <patterns>', 'limit it to these types of jobs')
    .option('--no-payloads', 'hide payloads, results, progress and errors from it');
  addSettingFlags(command, 'client').action(async (name: string, flags: CreateFlags) => {
    const { role, expires, queues, types, payloads } = flags;
    const scope = { queues: queues?.split(','), types: types?.split(','), payloads };
    const input = checkedInput(newTokenSchema, { name, role, expires, ...scope });
    const created = await withClient(command, context, (client) => client.tokens.create(input));
    showSecret(command, context, created);
  });
}

function addList(token: Command, context: CliContext): void {
  const command = token.command('list').description('Show every token, without its secret.');
  addSettingFlags(command, 'client').action(async () => {
    const items = await withClient(command, context, (client) => client.tokens.list());
    show(command, context, { items }, (format) => tokensText(items, format));
  });
}

function addRotate(token: Command, context: CliContext): void {
  const command = token
    .command('rotate')
    .description('Give a token a new secret and print it. The present one stays valid for a while.')
    .argument('<id>', 'id of the token, or at least its first 6 characters')
    .option('--overlap <duration>', 'how long the present secret stays valid [1h]')
    .option('--expires <duration>', `${EXPIRES} [as long as before]`);
  addSettingFlags(command, 'client').action(async (id: string, { overlap, expires }: RotateFlags) => {
    const input = checkedInput(rotateTokenSchema, { overlap, expires });
    const rotated = await withClient(command, context, async (client) =>
      client.tokens.rotate(await findId(client, 'token', id), input),
    );
    showSecret(command, context, rotated);
  });
}

function addRevoke(token: Command, context: CliContext): void {
  const command = token
    .command('revoke')
    .description('Revoke a token: servers refuse it and close its streams within five seconds.')
    .argument('<id>', 'id of the token, or at least its first 6 characters');
  addSettingFlags(command, 'client').action(async (id: string) => {
    const revoked = await withClient(command, context, async (client) =>
      client.tokens.revoke(await findId(client, 'token', id)),
    );
    show(command, context, { revoked }, () => (revoked ? `${id} is revoked` : `${id} was not valid`));
  });
}

/** A user who may write into the database may do everything anyway, so it needs no token. */
function addBootstrap(token: Command, context: CliContext): void {
  const command = token
    .command('bootstrap')
    .description('Create a token with the role admin directly in the database, without a server.')
    .option('--name <name>', 'name of the token', FIRST_NAME)
    .option('--expires <duration>', `${EXPIRES} [90d]`);
  addSettingFlags(command, 'migrate').action(async ({ name, expires }: { name: string; expires?: string }) => {
    const given = checked(newTokenSchema, { name, role: 'admin', expires });
    const { settings, ...findings } = await settingsFor(command, 'migrate', context);
    const teardown = new Teardown();
    try {
      const { utc } = command.optsWithGlobals<GlobalOptions>();
      const logger = createLogger({ logLevel: 'warn', logFormat: settings.logFormat }, context.stderr, { utc });
      logWarnings(logger, findings);
      const [{ openDatabase }, { withDatabase }, { issueToken }] = await Promise.all([
        import('../open-database.js'),
        import('../with-database.js'),
        import('../../access/tokens.js'),
      ]);
      const { url } = await openDatabase(settings, { context, logger, teardown });
      showSecret(command, context, await withDatabase(url, ({ control }) => issueToken(control, given, BOOTSTRAP)));
    } finally {
      await teardown.run();
    }
  });
}

/** The secret alone on standard output, for scripts. */
function showSecret(command: Command, context: CliContext, token: TokenWithSecret): void {
  const { json, utc = false } = command.optsWithGlobals<GlobalOptions>();
  if (json) {
    printJson(context.stdout, token);
    return;
  }
  printLine(context.stdout, token.secret);
  const expires = token.expiresAt === null ? 'never expires' : `expires ${formatTime(token.expiresAt, utc)}`;
  printLine(context.stderr, `${token.name} (${token.role}, ${token.id}) ${expires}. The secret is shown only once.`);
}

function tokensText(tokens: readonly Token[], { time }: TextFormat): string {
  if (tokens.length === 0) return 'no tokens';
  const rows = tokens.map((token): Cell[] => [
    ...[token.name, token.role, token.queues?.join(' ') ?? 'all', token.types?.join(' ') ?? 'all'],
    ...[token.payloads ? 'yes' : 'no', token.kind, token.state, token.id],
    ...[token.createdBy, time(token.expiresAt) ?? (token.kind === 'token' ? 'never' : null)],
    ...[time(token.lastUsedAt), time(token.overlapUntil)],
  ]);
  return formatTable(
    [
      ...['name', 'role', 'queues', 'types', 'payloads', 'kind', 'state', 'id'],
      ...['by', 'expires', 'last used', 'old secret until'],
    ],
    rows,
  );
}

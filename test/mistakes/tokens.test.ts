/** Mistakes with tokens, scopes and the audit trail. */
import { createClient } from '@drover/sdk';
import { afterAll, beforeAll } from 'vitest';
import { type ApiBench, createApiBench, TOKENS, tokenOf } from '../../packages/server/test/api/api-bench.js';
import { drover } from '../../packages/server/test/cli/run-cli.js';
import { describeMistakes } from './support/mistakes.js';

let api: ApiBench;
let limited: string;
beforeAll(async () => {
  api = await createApiBench({ tokens: TOKENS });
  const client = as(tokenOf('admin'));
  limited = (await client.tokens.create({ name: 'mail-team', role: 'operator', queues: ['mail.*'] })).secret;
  await client.close();
});
afterAll(() => api.close());

const as = (token: string) => createClient({ url: api.server.address, token, retries: 0 });
const NAME = 'expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _';
const token = async (...args: string[]) =>
  (await drover(['token', ...args, '--url', api.server.address], { env: { DROVER_TOKEN: tokenOf('admin') } })).stderr;

describeMistakes('creating tokens', [
  [
    'a name with a space',
    () => token('create', 'my shop', '--role', 'client'),
    `drover: name: ${NAME}, got "my shop"\n`,
  ],
  [
    'a lifetime with an unknown unit',
    () => token('create', 'a', '--role', 'client', '--expires', '90 days'),
    'drover: expires: expected "never" or a duration such as "90d", got "90 days"\n',
  ],
  [
    'a lifetime that is too short',
    () => token('create', 'a', '--role', 'client', '--expires', '1ms'),
    'drover: expires: expected "never" or a duration of at least 1 s, got "1ms"\n',
  ],
  [
    'a scope for an admin',
    () => token('create', 'a', '--role', 'admin', '--queues', 'mail'),
    'drover: queues: expected none, because a token with the role admin may do everything, got ["mail"]\n',
  ],
  [
    'a worker without payloads',
    () => token('create', 'a', '--role', 'worker', '--no-payloads'),
    'drover: payloads: expected true, because workers need payloads, got false\n',
  ],
  [
    'a pattern with a space',
    () => token('create', 'a', '--role', 'client', '--types', 'send mail'),
    'drover: types[0]: expected a name in which * stands for any characters, such as "mail.*", got "send mail"\n',
  ],
  [
    'a name instead of an id',
    () => token('revoke', 'shop'),
    'drover: id: expected an id, or at least its first 6 characters, got "shop"\n',
  ],
  [
    'an id that no token has',
    () => token('rotate', '01980000-0000-7000-8000-000000000000'),
    'drover: there is no token 01980000-0000-7000-8000-000000000000, or it is revoked\n',
  ],
]);

describeMistakes('using a token for what it may not', [
  [
    'another role',
    () => as(tokenOf('viewer')).pause({ cluster: true }),
    '"the-viewer" has the role viewer, this needs operator or admin',
  ],
  [
    'the audit trail without its role',
    () => as(tokenOf('operator')).audit(),
    '"the-operator" has the role operator, this needs auditor or admin',
  ],
  [
    'a job in another queue',
    () => as(limited).enqueue('send', {}, { queue: 'billing' }),
    'jobs[0].queue: "mail-team" is limited to the queues mail.*, got billing',
  ],
  [
    'a pause of another queue',
    () => as(limited).pause({ queue: 'billing' }),
    'queue: "mail-team" is limited to the queues mail.*, got billing',
  ],
  [
    'a pause of a type in all queues',
    () => as(limited).pause({ type: 'send' }),
    '"mail-team" is limited to queues, this needs a token for all queues of send',
  ],
  [
    'what concerns all queues',
    () => as(limited).stats(),
    '"mail-team" is limited to some queues or types, this needs a token for all of them',
  ],
]);

describeMistakes('reading the audit trail', [
  [
    'an unknown outcome',
    async () => (await drover(['audit', '--outcome', 'failed', '--url', 'http://127.0.0.1:9'])).stderr,
    'drover: outcome: expected one of "done", "denied", got "failed"\n',
  ],
  [
    'a time that is none',
    async () => (await drover(['audit', '--from', 'yesterday', '--url', 'http://127.0.0.1:9'])).stderr,
    'drover: from: expected a time in ISO 8601 such as "2030-01-31T12:00:00Z", got "yesterday"\n',
  ],
]);

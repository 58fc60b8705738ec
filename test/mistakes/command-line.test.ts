/** Command lines that are refused before a server is asked, and answers of servers that refuse. */
import { describeCommandLines } from './support/command-lines.js';

/** Nothing listens there. */
const NOWHERE = ['--url', 'http://127.0.0.1:1'];

describeCommandLines('commands', [
  [
    'a misspelt command',
    ['sever'],
    "error: unknown command 'sever'\n(Did you mean server?)\n(--help shows what is possible)",
  ],
  [
    'a misspelt subcommand',
    ['job', 'lst'],
    "error: unknown command 'lst'\n(Did you mean list?)\n(--help shows what is possible)",
  ],
  [
    'a misspelt flag',
    ['server', '--prot', '1'],
    "error: unknown option '--prot'\n(Did you mean --port?)\n(--help shows what is possible)",
  ],
  [
    'a flag without its value',
    ['server', '--port'],
    "error: option '--port <value>' argument missing\n(--help shows what is possible)",
  ],
  ['a missing argument', ['job', 'add'], "error: missing required argument 'type'\n(--help shows what is possible)"],
  [
    'too many arguments',
    ['queues', 'mail'],
    "error: too many arguments for 'queues'. Expected 0 arguments but got 1.\n(--help shows what is possible)",
  ],
]);

describeCommandLines('jobs', [
  [
    'a payload that is not JSON',
    ['job', 'add', 'mail', '{to: ada}'],
    'payload: expected JSON such as \'{"name":"Ada"}\' or \'"text"\', got "{to: ada}"',
  ],
  [
    'a payload twice',
    ['job', 'add', 'mail', '1', '--payload-file', 'x.json'],
    'expected a payload or --payload-file, not both',
  ],
  [
    'a payload file that does not exist',
    ['job', 'add', 'mail', '--payload-file', 'nothing.json'],
    '--payload-file: cannot read /nothing.json: it does not exist',
  ],
  [
    'a type with a space',
    ['job', 'add', 'send mail'],
    'type: expected a name of letters, digits and _ . : / @ - that starts with a letter, a digit or _, got "send mail"',
  ],
  [
    'a delay without a unit that is a word',
    ['job', 'add', 'mail', '--delay', 'soon'],
    'delay: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "soon"',
  ],
  [
    'a negative delay',
    ['job', 'add', 'mail', '--delay=-5s'],
    'delay: expected a duration such as "30s", "10m", "2h", "3d", or milliseconds, got "-5s"',
  ],
  [
    'attempts that are not a number',
    ['job', 'add', 'mail', '--max-attempts', 'many'],
    'maxAttempts: expected a number, got "many"',
  ],
  [
    'a priority out of range',
    ['job', 'add', 'mail', '--priority', '5000'],
    'priority: expected at most 1000, got 5000',
  ],
  [
    'a back-off of an unknown kind',
    ['job', 'add', 'mail', '--backoff', 'linear:5s'],
    '--backoff: expected fixed:5s, list:1s,10s,1m, exponential:1s,2,1h or JSON, got "linear:5s"',
  ],
  [
    'a time without a zone',
    ['job', 'add', 'mail', '--run-at', '2030-01-31 12:00'],
    'runAt: expected a time in ISO 8601 such as "2030-01-31T12:00:00Z", got "2030-01-31 12:00"',
  ],
  [
    'delay and run-at',
    ['job', 'add', 'mail', '--delay', '5s', '--run-at', '2030-01-31T12:00:00Z'],
    'runAt: expected either delay or runAt, not both, got "2030-01-31T12:00:00Z"',
  ],
  [
    'a wait without --wait',
    ['job', 'add', 'mail', '--wait-timeout', '5s'],
    '--wait-timeout: expected --wait beside it, got it alone',
  ],
  [
    'an unknown state',
    ['job', 'list', '--state', 'done'],
    'state[0]: expected one of "blocked", "scheduled", "ready", "running", "unknown", "succeeded", "failed", "cancelled", got "done"',
  ],
  ['a page that is too large', ['job', 'list', '--limit', '5000'], 'limit: expected at most 1000, got "5000"'],
  [
    'an id that is none',
    ['job', 'show', 'order-4711'],
    'id: expected an id, or at least its first 6 characters, got "order-4711"',
  ],
  [
    'an id that is too short',
    ['job', 'cancel', '0193f'],
    'id: expected an id, or at least its first 6 characters, got "0193f"',
  ],
  [
    'a server that does not run',
    ['job', 'list', ...NOWHERE],
    'no answer from http://127.0.0.1:1: connection refused; check that a server runs at this address',
  ],
]);

describeCommandLines('schedules', [
  [
    'neither a type nor a file',
    ['schedule', 'put', 'nightly', '--every', '1h'],
    'expected either the type of its jobs or --file',
  ],
  ['no time', ['schedule', 'put', 'nightly', 'report'], 'specs: expected one of cron, every, at and specs, got none'],
  [
    'an unknown time zone',
    ['schedule', 'put', 'n', 'report', '--cron', '@daily', '--time-zone', 'Berlin'],
    'timeZone: expected an IANA time zone such as "Europe/Berlin" or "UTC", got "Berlin"',
  ],
  [
    'an unknown overlap policy',
    ['schedule', 'put', 'n', 'report', '--every', '1h', '--overlap', 'never'],
    'overlap: expected one of "allow", "skip", "queue-one", "cancel-previous", got "never"',
  ],
  [
    'an interval that is too short',
    ['schedule', 'put', 'nightly', 'report', '--every', '100ms'],
    'specs: expected an interval of at least one second',
  ],
]);

/** Writes a journal until it kills itself at a random moment; prints what it was promised. Arguments: folder, round. */
import { writeSync } from 'node:fs';
import { Journal } from '../../dist/worker/journal/journal.js';

const [, , folder, round] = process.argv;
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const say = (...words) => writeSync(1, `${words.join(' ')}\n`);

const session = { id: `s-${round}`, resumeKey: `key of s-${round}` };
const journal = await Journal.open({ folder, session, discardDamaged: false, logger, troubled() {} });
setTimeout(() => process.kill(process.pid, 'SIGKILL'), Math.random() * 40);
const durable = [];
for (let n = 0; ; n++) {
  const grant = { id: `${round}-${n}`, fence: 1 };
  journal.started({ ...grant, type: 't', onLost: 'hold' });
  await journal.commit();
  say('started', grant.id);
  journal.finished({ ...grant, text: JSON.stringify({ ...grant, kind: 'succeeded', result: 'x'.repeat(n * 37) }) });
  await journal.commit();
  say('finished', grant.id);
  durable.push(grant);
  if (n % 3 !== 2) continue;
  const done = durable.shift();
  // Said before it is done: what is acknowledged may be gone or not.
  say('acknowledged', done.id);
  journal.acknowledged(done);
}

/** The environment variable that lets a process die at a given place: real processes on the built module. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';

const MODULE = new URL('../dist/failpoint.js', import.meta.url).href;
/** Passes two places in turn, says so, and stays. */
const PROGRAM = `
  import { writeSync } from 'node:fs';
  import { failpoint } from '${MODULE}';
  for (let pass = 1; pass <= 5; pass++) {
    failpoint('claim.sent');
    failpoint('renew.before');
    writeSync(1, pass + ' ');
  }
  writeSync(1, 'end');
`;

function run(failpoint: string | undefined): ChildProcess {
  const env = { PATH: process.env.PATH, ...(failpoint === undefined ? {} : { DROVER_FAILPOINT: failpoint }) };
  return spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], { env, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function outcomeOf(child: ChildProcess): Promise<{ said: string; complained: string; ended: unknown }> {
  let [said, complained] = ['', ''];
  child.stdout?.on('data', (text) => {
    said += text;
  });
  child.stderr?.on('data', (text) => {
    complained += text;
  });
  const [code, signal] = await once(child, 'close');
  return { said, complained, ended: signal ?? code };
}

test('without it every place is passed', async () => {
  expect(await outcomeOf(run(undefined))).toMatchObject({ said: '1 2 3 4 5 end', ended: 0 });
});

test.each([
  ['claim.sent', ''],
  ['claim.sent:1', ''],
  ['renew.before:3', '1 2 '],
  ['claim.sent:5:kill', '1 2 3 4 '],
])('%s ends the process when that place is passed so often, and no sooner', async (given, said) => {
  expect(await outcomeOf(run(given))).toMatchObject({ said, ended: 'SIGKILL' });
});

test('a place that is not passed so often does nothing', async () => {
  expect(await outcomeOf(run('claim.sent:6'))).toMatchObject({ said: '1 2 3 4 5 end', ended: 0 });
});

test('stop lets it stand still there, and it can go on', async () => {
  const child = run('renew.before:2:stop');
  const outcome = outcomeOf(child);
  const state = () => spawnSync('ps', ['-o', 'state=', '-p', String(child.pid)], { encoding: 'utf8' }).stdout.trim();
  await expect.poll(state, { timeout: 20_000 }).toMatch(/^T/);
  child.kill('SIGCONT');
  expect(await outcome).toMatchObject({ said: '1 2 3 4 5 end', ended: 0 });
});

test.each(['claim.snet:1', 'claim.sent:0', 'claim.sent:x', 'claim.sent:1:pause'])(
  'what it cannot do is refused at the start: %s',
  async (given) => {
    const { ended, complained } = await outcomeOf(run(given));
    expect(ended).toBe(1);
    expect(complained).toContain(`got ${given}`);
  },
);

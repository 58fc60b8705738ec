/** Failpoints and switches, in real processes with and without the preload. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { environmentOf, type TestPoints } from './environment.js';

/** Passes two places in turn and prints how often; then which mechanisms are switched off. */
const PROGRAM = `
  import { writeSync } from 'node:fs';
  import { failpoint, isSwitchedOff, SAFETY_MECHANISMS } from '@drover/protocol/test-points';
  for (let pass = 1; pass <= 5; pass++) {
    failpoint('claim.sent');
    failpoint('renew.before');
    writeSync(1, pass + ' ');
  }
  writeSync(1, ['end', ...SAFETY_MECHANISMS.filter(isSwitchedOff)].join(' '));
`;

function run(env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const runWith = (points: TestPoints) => run(environmentOf(points));

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

test('a process without the preload obeys no variable', async () => {
  const env = { DROVER_TEST_FAILPOINT: 'claim.sent:1', DROVER_TEST_WITHOUT: 'fencing' };
  expect(await outcomeOf(run(env))).toMatchObject({ said: '1 2 3 4 5 end', ended: 0 });
});

test.each([
  ['claim.sent', ''],
  ['claim.sent:1', ''],
  ['renew.before:3', '1 2 '],
  ['claim.sent:5:kill', '1 2 3 4 '],
])('%s kills the process when it has passed the place that often', async (failpoint, said) => {
  expect(await outcomeOf(runWith({ failpoint }))).toMatchObject({ said, ended: 'SIGKILL' });
});

test('a place that is passed less often does nothing', async () => {
  expect(await outcomeOf(runWith({ failpoint: 'claim.sent:6' }))).toMatchObject({ said: '1 2 3 4 5 end', ended: 0 });
});

test('stop freezes the process at the place until it is resumed', async () => {
  const child = runWith({ failpoint: 'renew.before:2:stop' });
  const outcome = outcomeOf(child);
  const state = () => spawnSync('ps', ['-o', 'state=', '-p', String(child.pid)], { encoding: 'utf8' }).stdout.trim();
  await expect.poll(state, { timeout: 20_000 }).toMatch(/^T/);
  child.kill('SIGCONT');
  expect(await outcome).toMatchObject({ said: '1 2 3 4 5 end', ended: 0 });
});

test('the mechanisms that are named are switched off, and no others', async () => {
  const outcome = await outcomeOf(runWith({ without: ['self-stop', 'fencing'] }));
  expect(outcome).toMatchObject({ said: '1 2 3 4 5 end fencing self-stop', ended: 0 });
});

test.each([
  ['DROVER_TEST_FAILPOINT', 'claim.snet:1'],
  ['DROVER_TEST_FAILPOINT', 'claim.sent:0'],
  ['DROVER_TEST_FAILPOINT', 'claim.sent:x'],
  ['DROVER_TEST_FAILPOINT', 'claim.sent:1:pause'],
  ['DROVER_TEST_WITHOUT', 'fencing,fences'],
])('%s=%s is refused at the start', async (variable, value) => {
  const env = { ...environmentOf({ without: ['fencing'] }), [variable]: value };
  const { ended, complained } = await outcomeOf(run(env));
  expect(ended).toBe(1);
  expect(complained).toContain(`${variable}: expected`);
  expect(complained).toContain(`got ${value}`);
});

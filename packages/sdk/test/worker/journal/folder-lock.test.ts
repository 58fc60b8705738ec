/** Processes that open the folder of a dead worker at the same time, as when a supervisor restarts it twice. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../../support/lock-process.mjs', import.meta.url));
const TAKERS = 8;
const ROUNDS = 12;
/** For the message to reach all of them before they begin. */
const LEAD_MS = 30;

type Answer = { won: number; refusals: { code: string; message: string }[] };

let folder: string;
const processes = new Set<ChildProcess>();
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drover-lock-'));
});
afterEach(async () => {
  await Promise.all([...processes].map(end));
  await rm(folder, { recursive: true });
});

async function startTaker(): Promise<ChildProcess> {
  const child = fork(PROGRAM, [folder], { execArgv: [] });
  processes.add(child);
  await once(child, 'message');
  return child;
}

/** Resolves when nothing is left of it. */
async function end(child: ChildProcess): Promise<void> {
  processes.delete(child);
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

async function race(takers: readonly ChildProcess[]): Promise<Answer[]> {
  const answers = takers.map(async (taker) => (await once(taker, 'message'))[0] as Answer);
  const atMs = Date.now() + LEAD_MS;
  for (const taker of takers) taker.send({ atMs });
  return Promise.all(answers);
}

it('belongs to exactly one of them, each time its owner has been killed', async () => {
  const takers = await Promise.all(Array.from({ length: TAKERS }, startTaker));
  for (let round = 1; round <= ROUNDS; round++) {
    const answers = await race(takers);
    const refusals = answers.flatMap((answer) => answer.refusals);
    expect(
      answers.map(({ won }) => won).filter((won) => won > 0),
      `round ${round}: ${JSON.stringify(refusals)}`,
    ).toEqual([1]);
    expect(refusals.every(({ code, message }) => code === 'wrong_state' && message.includes(folder))).toBe(true);
    const won = takers.filter((_, index) => answers[index]?.won === 1);
    const [winner] = won as [ChildProcess];
    expect(JSON.parse(await readFile(join(folder, 'lock'), 'utf8'))).toMatchObject({ pid: winner.pid });
    // Nothing is left of those who were in its way, and of those who had it before.
    expect(await readdir(folder)).toEqual(['lock']);

    const [next] = await Promise.all([startTaker(), end(winner)]);
    takers[takers.indexOf(winner)] = next;
  }
});

import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { type Alarm, createAlarm } from '../../src/base/alarm.js';

const FAR_MS = 60_000;
let alarm: Alarm;
afterEach(() => alarm.stop());

/** An alarm whose turns wait until the test ends them; each returns the pause that the test gives. */
function create(stream: NodeJS.WritableStream = new PassThrough()) {
  const turns: { end(pauseMs: number): void; fail(error: Error): void; signal: AbortSignal }[] = [];
  let began = () => {};
  alarm = createAlarm({
    turn: (signal) =>
      new Promise((end, fail) => {
        turns.push({ end, fail, signal });
        began();
      }),
    failure: { event: 'test.failed', message: 'it failed' },
    logger: pino({}, stream),
  });
  /** Resolves with the turn of this number. */
  async function turn(number: number) {
    while (turns.length < number) {
      await new Promise<void>((resolve) => {
        began = resolve;
      });
    }
    return turns[number - 1] as (typeof turns)[number];
  }
  return { turns, turn };
}

describe('an alarm', () => {
  it('begins with a turn, and starts the next one after the time that the last one returned', async () => {
    const { turn, turns } = create();
    alarm.within(0);
    await sleep(20);
    expect(turns).toHaveLength(0);
    alarm.start();
    (await turn(1)).end(5);
    (await turn(2)).end(FAR_MS);
    await sleep(20);
    expect(turns).toHaveLength(2);
  });

  it('rings earlier if a caller asks for it, and never later', async () => {
    const { turn, turns } = create();
    alarm.start();
    (await turn(1)).end(FAR_MS);
    await sleep(1);
    alarm.within(5);
    alarm.within(FAR_MS);
    (await turn(2)).end(FAR_MS);
    expect(turns).toHaveLength(2);
  });

  it('runs one turn at a time, and one more if it was asked for during a turn', async () => {
    const { turn, turns } = create();
    alarm.start();
    const first = await turn(1);
    alarm.within(0);
    alarm.within(1);
    await sleep(20);
    expect(turns).toHaveLength(1);
    first.end(FAR_MS);
    (await turn(2)).end(FAR_MS);
    await sleep(20);
    expect(turns).toHaveLength(2);
  });

  it('continues after a turn that failed, and logs the failure', async () => {
    const log = new PassThrough();
    const { turn } = create(log);
    alarm.start();
    (await turn(1)).fail(new Error('no database'));
    const [line] = await once(log, 'data');
    expect(JSON.parse(String(line))).toMatchObject({ msg: 'it failed', err: { message: 'no database' } });
    (await turn(2)).end(FAR_MS);
  });

  it('stops when the turn under way has ended, and takes no other', async () => {
    const { turn, turns } = create();
    alarm.start();
    const first = await turn(1);
    alarm.within(0);
    let stopped = false;
    const stopping = alarm.stop().then(() => {
      stopped = true;
    });
    await sleep(10);
    expect({ stopped, aborted: first.signal.aborted }).toEqual({ stopped: false, aborted: true });
    first.end(0);
    await stopping;
    await sleep(10);
    expect(turns).toHaveLength(1);
  });
});

/** Changes reach every listener, and what listeners make of them does not reach back. */
import { newId } from '@drover/protocol';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { Change } from '../../src/lifecycle/change.js';
import { createPublisher } from '../../src/lifecycle/publish.js';

const change: Change = {
  ...{ id: newId(), type: 'work', queue: 'default', verb: 'promote', from: 'scheduled', to: 'ready', attempt: 0 },
  ...{ dueInMs: undefined, stop: undefined },
};

test('every listener hears what is published, until it leaves', () => {
  const { publish, listen } = createPublisher(pino({ level: 'silent' }));
  const heard: string[] = [];
  listen((changes) => heard.push(`first ${changes.length}`));
  const leave = listen((changes) => heard.push(`second ${changes.length}`));
  publish([change]);
  leave();
  publish([change, change]);
  expect(heard).toEqual(['first 1', 'second 1', 'first 2']);
});

test('an empty list of changes calls no listener', () => {
  const { publish, listen } = createPublisher(pino({ level: 'silent' }));
  listen(() => expect.unreachable());
  publish([]);
});

test('a listener that fails is logged, and the others hear all the same', () => {
  const lines: string[] = [];
  const { publish, listen } = createPublisher(pino({ level: 'error' }, { write: (line: string) => lines.push(line) }));
  const heard: number[] = [];
  listen(() => {
    throw new Error('broken listener');
  });
  listen((changes) => heard.push(changes.length));
  publish([change]);
  expect(heard).toEqual([1]);
  expect(lines.join('')).toContain('broken listener');
});

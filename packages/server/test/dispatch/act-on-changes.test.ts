/** What a server does about changes that it has published, whichever verb they come from. */
import { newId } from '@drover/protocol';
import { expect, test } from 'vitest';
import { actOnChanges } from '../../src/dispatch/act-on-changes.js';
import type { Change } from '../../src/lifecycle/change.js';
import type { StopRequest } from '../../src/sessions/channel.js';
import type { Session } from '../../src/sessions/session.js';
import { channelOf, sessionOf, sessionsOf } from '../support/session.js';

function changed(change: Partial<Change>): Change {
  return {
    ...{ id: newId(), type: 'work', queue: 'default', verb: 'release', from: 'running', to: 'ready', attempt: 1 },
    ...{ dueInMs: undefined, stop: undefined },
    ...change,
  } as Change;
}

/** What is done about the changes, in order. */
function actsOn(changes: Change[], sessions: Session[] = []): string[] {
  const acts: string[] = [];
  const publish = actOnChanges({
    dispatcher: { wake: () => acts.push('wake') },
    sessions: sessionsOf(...sessions),
    wakeups: { tellOthers: (hint) => acts.push(`tell ${hint}`) },
    promoter: { expect: (inMs) => acts.push(`due in ${inMs}`) },
  });
  publish(changes);
  return acts;
}

test('ready jobs are claimed here or by another server', () => {
  expect(actsOn([changed({}), changed({ verb: 'promote', from: 'scheduled' })])).toEqual(['wake', 'tell ready']);
});

test('the alarm is set for the first of the scheduled jobs, but never for at once', () => {
  const scheduled = (dueInMs: number) => changed({ verb: 'snooze', to: 'scheduled', dueInMs });
  expect(actsOn([scheduled(900), scheduled(300), scheduled(60_000)])).toEqual(['due in 300']);
  expect(actsOn([scheduled(0)])).toEqual(['due in 1']);
});

test('a finished job makes nothing necessary', () => {
  expect(actsOn([changed({ verb: 'complete', to: 'succeeded' })])).toEqual([]);
});

test('the worker of a job that is to stop is told, by this server or the one that serves it', () => {
  const told: (readonly StopRequest[])[] = [];
  const session = sessionOf('work', { channel: channelOf({ cancel: (items) => void told.push(items) }) });
  const toStop = (sessionId: string, reason: 'cancelled' | 'expired') =>
    changed({ verb: 'cancel', to: 'running', stop: { sessionId, fence: 3, reason } });
  const [mine, alsoMine, other] = [
    toStop(session.id, 'cancelled'),
    toStop(session.id, 'expired'),
    toStop(newId(), 'expired'),
  ];
  expect(actsOn([mine, alsoMine, other], [session])).toEqual(['tell cancel']);
  expect(told).toEqual([
    [
      { id: mine.id, fence: 3, reason: 'cancelled' },
      { id: alsoMine.id, fence: 3, reason: 'expired' },
    ],
  ]);
});

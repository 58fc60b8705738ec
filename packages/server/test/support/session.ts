/** A worker's session in a server's memory, free and in order, for tests of the parts that only read that. */
import { newId } from '@drover/protocol';
import { UNLIMITED } from '../../src/access/principal.js';
import type { Channel } from '../../src/sessions/channel.js';
import { groupKeyOf, type Session } from '../../src/sessions/session.js';

export function sessionOf(type: string, given: Partial<Session> = {}): Session {
  return {
    ...{ id: newId(), connection: 1, name: 'w', types: [type], queues: null, holdTypes: [], slots: 1 },
    ignoresPause: false,
    ...{
      groupKey: groupKeyOf({ types: [type], queues: null, holdTypes: [], ignoresPause: false }),
      grants: new Map(),
      arriving: new Set(),
      settling: new Set(),
    },
    ...{ settlingGrants: 0, backlog: undefined },
    ...{ window: 1, sent: 0, reserved: 0, draining: false, paused: false, suspected: false },
    ...{ beat: 0, confirmedBeat: 0, lastBeatAt: 0, received: 0, laggingSince: undefined, trouble: undefined },
    ...{ closed: false, channel: channelOf(), proof: { keyHash: '', credentialProof: '' } },
    principal: { name: 'w', role: 'worker', kind: 'configured', ...UNLIMITED },
    ...given,
  };
}

/** A channel to a worker that hears nothing but what the test listens to. */
export function channelOf(given: Partial<Channel> = {}): Channel {
  return {
    ...{
      isOpen: true,
      backlogBytes: 0,
      welcome() {},
      assign() {},
      cancel() {},
      handBack() {},
      moveOn() {},
      confirmBeat() {},
    },
    disconnect() {},
    ...given,
  };
}

export function sessionsOf(...sessions: Session[]): Map<string, Session> {
  return new Map(sessions.map((session) => [session.id, session]));
}

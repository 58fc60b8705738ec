/** A worker's session in a server's memory, free and in order, for tests of the parts that only look at that. */
import { newId } from '@drover/protocol';
import { groupKeyOf, type Session } from '../../src/dispatch/session.js';

export function sessionOf(type: string, given: Partial<Session> = {}): Session {
  return {
    ...{ id: newId(), connection: 1, name: 'w', types: [type], queues: null, slots: 1, ignoresPause: false },
    ...{ groupKey: groupKeyOf([type], null, false), grants: new Map(), arriving: new Set() },
    ...{ window: 1, sent: 0, reserved: 0, draining: false, paused: false, suspected: false },
    ...{ beat: 0, confirmedBeat: 0, lastBeatAt: 0, received: 0, laggingSince: undefined, trouble: undefined },
    ...{ closed: false, send() {}, disconnect() {} },
    ...given,
  };
}

/** What this server does about published changes: it claims ready jobs, sets the alarm for scheduled ones, and stops cancelled ones. */

import { groupBy } from '../base/group-by.js';
import type { Change } from '../lifecycle/change.js';
import type { Publish } from '../lifecycle/publish.js';
import { tellToStop } from '../sessions/pass-on-cancels.js';
import type { Sessions } from '../sessions/registry.js';
import type { Dispatcher } from './dispatcher.js';
import type { Wakeups } from './wakeups.js';

type Actors = {
  dispatcher: Pick<Dispatcher, 'wake'>;
  sessions: Sessions;
  wakeups: Pick<Wakeups, 'tellOthers'>;
  promoter: { expect(inMs: number): void };
};

export function actOnChanges({ dispatcher, sessions, wakeups, promoter }: Actors): Publish {
  return (changes) => {
    let isAnyReady = false;
    let soonestMs = Number.POSITIVE_INFINITY;
    const toStop: Change[] = [];
    for (const change of changes) {
      if (change.stop) toStop.push(change);
      else if (change.to === 'ready') isAnyReady = true;
      else if (change.dueInMs !== undefined) soonestMs = Math.min(soonestMs, change.dueInMs);
    }
    if (isAnyReady) {
      dispatcher.wake();
      wakeups.tellOthers('ready');
    }
    // at least 1: the timestamps of PostgreSQL are finer than this
    if (soonestMs < Number.POSITIVE_INFINITY) promoter.expect(Math.max(1, soonestMs));
    if (toStop.length > 0) passOn(toStop);
  };

  function passOn(toStop: Change[]): void {
    for (const [sessionId, changed] of groupBy(toStop, ({ stop }) => stop?.sessionId ?? '')) {
      const items = changed.flatMap(({ id, stop }) => (stop ? [{ id, fence: stop.fence, reason: stop.reason }] : []));
      tellToStop(sessions.get(sessionId), items);
    }
    wakeups.tellOthers('cancel');
  }
}

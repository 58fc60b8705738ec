import { type Grant, LIMITS } from '@drover/protocol';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { JournalState } from '../../../src/worker/journal/journal-state.js';

const said = (state: JournalState) => ({
  sessions: state.sessions,
  isIncomplete: state.isIncomplete,
  unfinished: state.unfinished().sort(byGrant),
  undelivered: state.undelivered().sort(byGrant),
});
const byGrant = (a: Grant, b: Grant) => a.id.localeCompare(b.id) || a.fence - b.fence;

it('is the same whether it was lived, read line by line, or read from its summary', () => {
  const grant = fc.record({ id: fc.constantFrom('a', 'b', 'c'), fence: fc.constantFrom(1, 2, 3) });
  const step = fc.oneof(
    fc.record({ verb: fc.constant('started' as const), grant }),
    fc.record({ verb: fc.constant('finished' as const), grant, result: fc.string() }),
    fc.record({ verb: fc.constant('acknowledged' as const), grant }),
    fc.record({ verb: fc.constant('session' as const), id: fc.constantFrom('s1', 's2') }),
    fc.record({ verb: fc.constant('adopted' as const) }),
    fc.record({ verb: fc.constant('incomplete' as const) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const lived = new JournalState();
      let lines = '';
      for (const each of steps) {
        if (each.verb === 'session') lines += lived.session({ id: each.id, resumeKey: `key of ${each.id}` });
        else if (each.verb === 'incomplete') lines += lived.incomplete();
        else if (each.verb === 'adopted') lines += lived.adopted('cluster');
        else if (each.verb === 'acknowledged') lines += lived.acknowledged(each.grant) ?? '';
        else if (each.verb === 'started') lines += lived.started({ ...each.grant, type: 't', onLost: 'rerun' });
        else lines += lived.finished({ ...each.grant, text: JSON.stringify({ ...each.grant, result: each.result }) });
      }
      const read = new JournalState();
      read.read(lines);
      expect(said(read)).toEqual(said(lived));
      const summed = new JournalState();
      summed.read(lived.lines());
      expect(said(summed)).toEqual(said(lived));
      for (const held of [...lived.unfinished(), ...lived.undelivered()]) lived.acknowledged(held);
      expect(lived.bytes).toBe(0);
    }),
  );
});

it('keeps the outcome of the newest grant alone', () => {
  const outcome = (fence: number, kind: string) => ({ id: 'a', fence, text: JSON.stringify({ id: 'a', fence, kind }) });
  const newest = outcome(2, 'lost');
  for (const order of [
    [outcome(1, 'released'), newest],
    [newest, outcome(1, 'released')],
  ]) {
    const state = new JournalState();
    state.started({ id: 'a', fence: 1, type: 't', onLost: 'hold' });
    state.started({ id: 'a', fence: 2, type: 't', onLost: 'hold' });
    for (const each of order) state.finished(each);
    expect(state.undelivered()).toEqual([newest]);
  }
});

it('names the session that its jobs are of, however often the process was started since without a server', () => {
  const state = new JournalState();
  let lines = state.session({ id: 'with jobs', resumeKey: 'k' }) + state.adopted('cluster');
  for (let n = 0; n < 3 * LIMITS.previousSessions; n++) lines += state.session({ id: `in vain ${n}`, resumeKey: 'k' });
  expect(state.sessions).toHaveLength(LIMITS.previousSessions + 1);
  expect(state.sessions[0]?.id).toBe('with jobs');
  expect(state.sessions.at(-1)?.id).toBe(`in vain ${3 * LIMITS.previousSessions - 1}`);
  const read = new JournalState();
  read.read(lines);
  expect(read.sessions).toEqual(state.sessions);
});

/**
 * No server ends by itself. The one exception: a server that cannot reach the database at its start reports that and
 * ends, because a wrong address must not look like a slow start, and its supervisor restarts it. The rule requires
 * all of this: it never reported that it was ready, it ended with the code for it, and the database or its network
 * was broken meanwhile.
 */
import { type Evidence, type Instance, overlapsSpan } from '../evidence/evidence.js';
import type { Rule } from './rule.js';

const ABOUT_THE_DATABASE = /database/;

export const serversStay: Rule = {
  code: 'L4',
  promise: 'no server ends by itself',
  check(evidence, report) {
    const ready = new Set(evidence.serverLog.map((line) => /"pid":(\d+).*"server is ready"/.exec(line)?.[1]));
    let withoutDatabase = 0;
    for (const instance of evidence.instances.filter(({ role }) => role === 'server')) {
      const isExcused = instance.byItself && !ready.has(String(instance.pid)) && hadNoDatabase(evidence, instance);
      if (isExcused) withoutDatabase += 1;
      report.check(!instance.byItself || isExcused, () => `${instance.key} ended with ${instance.ending}`);
    }
    if (withoutDatabase > 0) report.note(`${withoutDatabase} ended at their start, without a database`);
  },
};

function hadNoDatabase({ databaseTroubles, units }: Evidence, instance: Instance): boolean {
  const { unit, ending, startedAt, exitedAt = Number.POSITIVE_INFINITY } = instance;
  const ways = [...databaseTroubles, ...(units.find(({ name }) => name === unit)?.troubles ?? [])];
  return (
    ending === 'code 1' &&
    ways.some((trouble) => ABOUT_THE_DATABASE.test(trouble.what) && overlapsSpan(trouble, startedAt, exitedAt))
  );
}

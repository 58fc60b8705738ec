/** How many requests a caller may make in a second, on one server. */
import { DroverError } from '@drover/protocol';
import type { Principal } from './principal.js';

/** Throws overloaded. */
export type CheckRate = (principal: Principal) => void;

type Bucket = { left: number; at: number };

/** `perSecond` 0: there is no limit. A caller that was quiet may make the requests of one second at once. */
export function createRequestRate(perSecond: number, now = () => performance.now()): CheckRate {
  if (perSecond === 0) return () => {};
  // principals are objects that live as long as the server knows them
  const buckets = new WeakMap<Principal, Bucket>();

  return (principal) => {
    const at = now();
    const bucket = buckets.get(principal) ?? { left: perSecond, at };
    buckets.set(principal, bucket);
    bucket.left = Math.min(perSecond, bucket.left + ((at - bucket.at) / 1000) * perSecond);
    bucket.at = at;
    if (bucket.left >= 1) bucket.left -= 1;
    else {
      const message = `"${principal.name}" makes more than ${perSecond} requests per second on this server, which is the limit`;
      throw new DroverError('overloaded', message, { limit: perSecond, retryAfterSeconds: 1 });
    }
  };
}

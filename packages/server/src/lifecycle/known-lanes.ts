/**
 * The lanes that the database has a row for, as far as this server has seen it, so that adding jobs need not look.
 *
 * Rows of lanes are never deleted. A failover that loses commits may lose one all the same: so what is known is forgotten
 * when the database was away, and after a short while in any case. The reconciler would put the row back.
 */
export type KnownLanes = {
  has(queue: string, type: string): boolean;
  add(queue: string, type: string): void;
  forget(): void;
};

const REMEMBERED_MS = 10_000;
const MAX_REMEMBERED = 10_000;

export function createKnownLanes(now: () => number = () => performance.now()): KnownLanes {
  const lanes = new Set<string>();
  let forgetAt = Number.NEGATIVE_INFINITY;
  const nameOf = (queue: string, type: string) => `${queue} ${type}`;
  return {
    has: (queue, type) => now() < forgetAt && lanes.has(nameOf(queue, type)),
    add(queue, type) {
      if (now() >= forgetAt || lanes.size >= MAX_REMEMBERED) {
        lanes.clear();
        forgetAt = now() + REMEMBERED_MS;
      }
      lanes.add(nameOf(queue, type));
    },
    forget: () => lanes.clear(),
  };
}

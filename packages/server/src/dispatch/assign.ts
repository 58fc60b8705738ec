/**
 * Which worker gets the next jobs: the suitable one with the most free capacity. Pure. The order is decided before
 * the claim, slot by slot, so that the claim itself records each job's holder.
 */
import type { SlotGroup } from '../lifecycle/claim.js';

export type Candidate = {
  id: string;
  groupKey: string;
  types: readonly string[];
  queues: readonly string[] | null;
  holdTypes: readonly string[];
  ignoresPause: boolean;
  free: number;
};

export type PlannedGroup = SlotGroup & { groupKey: string };

/** Up to `limit` slots per group, the group with the most free slots first. */
export function planSlots(candidates: readonly Candidate[], limit: number): PlannedGroup[] {
  const byGroup = new Map<string, Candidate[]>();
  for (const candidate of candidates) {
    if (candidate.free <= 0) continue;
    const members = byGroup.get(candidate.groupKey);
    if (members) members.push(candidate);
    else byGroup.set(candidate.groupKey, [candidate]);
  }
  const groups = [...byGroup.entries()].map(([groupKey, members]) => {
    const [first] = members as [Candidate];
    return {
      groupKey,
      types: first.types,
      queues: first.queues,
      holdTypes: first.holdTypes,
      ignoresPause: first.ignoresPause,
      slots: mostFreeFirst(members, limit),
      free: members.reduce((sum, member) => sum + member.free, 0),
    };
  });
  return groups.sort((a, b) => b.free - a.free).map(({ free: _, ...group }) => group);
}

/** Takes one slot at a time from the member with the most free slots left. */
function mostFreeFirst(members: readonly Candidate[], limit: number): string[] {
  const sorted = [...members].sort((a, b) => b.free - a.free);
  const slots: string[] = [];
  for (let level = sorted[0]?.free ?? 0; level > 0; level--) {
    for (const member of sorted) {
      if (member.free < level) break;
      slots.push(member.id);
      if (slots.length === limit) return slots;
    }
  }
  return slots;
}

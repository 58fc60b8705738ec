/**
 * Which workers and servers are there, in SQL that the lists and the statistics share. The server that
 * serves a worker counts the beats it misses; when no server does, the time since the last beat tells.
 */

/** Missed beats from which on a worker or server counts as unresponsive. */
export const UNRESPONSIVE_AFTER_BEATS = 2;

/** Beats that should have come since `beat_at`; `beatMs` is the parameter with the length of a beat. */
export function beatsSince(beatAt: string, beatMs: '$1'): string {
  return `floor(extract(epoch from now() - ${beatAt}) * 1000 / ${beatMs}::double precision)::int`;
}

/** The beats a session `s` has missed. */
export const MISSED_BEATS = `greatest(s.missed_beats, ${beatsSince('s.beat_at', '$1')})`;

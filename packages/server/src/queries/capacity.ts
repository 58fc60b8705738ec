/**
 * SQL about the state of workers and servers, shared by the lists and the statistics. The server of a worker counts
 * its missed beats; a worker without a server is judged by the time since its last beat.
 */

/** Missed beats after which a worker or server counts as unresponsive. */
export const UNRESPONSIVE_AFTER_BEATS = 2;

/** Beats that should have come since `beat_at`; `beatMs` is the parameter with the length of a beat. */
export function beatsSince(beatAt: string, beatMs: '$1'): string {
  return `floor(extract(epoch from now() - ${beatAt}) * 1000 / ${beatMs}::double precision)::int`;
}

/** The missed beats of a session `s`. */
export const MISSED_BEATS = `greatest(s.missed_beats, ${beatsSince('s.beat_at', '$1')})`;

/**
 * SQL about the state of workers and servers, shared by the lists and the statistics. The server of a worker counts
 * its missed beats; a worker without a server is judged by the time since its last beat.
 */

/** Missed beats after which a worker or server counts as unresponsive. */
export const UNRESPONSIVE_AFTER_BEATS = 2;

/**
 * Beats that should have come since `beat_at`; `beatMs` is the parameter with the length of a beat. A time beyond all reason,
 * such as `infinity`, counts as the nearest one whose beats fit into an int.
 */
export function beatsSince(beatAt: string, beatMs: '$1'): string {
  const since = `least(now(), greatest(${beatAt}, now() - interval '1 year'))`;
  return `floor(extract(epoch from now() - ${since}) * 1000 / ${beatMs}::double precision)::int`;
}

/** The missed beats of a session `s`. */
export const MISSED_BEATS = `greatest(s.missed_beats, ${beatsSince('s.beat_at', '$1')})`;

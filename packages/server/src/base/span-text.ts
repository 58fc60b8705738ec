/** A time span in a message: rounded, `400 ms` or `9.9 s`. */
export function spanText(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 100) / 10} s`;
}

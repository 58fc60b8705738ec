/** The errors of the suite's handlers name the execution that threw them. */
const NAMED = /\(execution ([^)]+)\)/;

export function executionNamedBy(message: string | null): string | null {
  return (message && NAMED.exec(message)?.[1]) ?? null;
}

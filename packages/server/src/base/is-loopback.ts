const LOOPBACK_PATTERN = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i;

/** Whether a host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return LOOPBACK_PATTERN.test(host);
}

/** Splits a connection string with several hosts (`postgres://user@a:5432,b:5432/db`) into one per host. */
export function splitHosts(connectionString: string): string[] {
  const match = /^([a-z]+:\/\/)((?:[^@/]*@)?)([^/?]*)(.*)$/.exec(connectionString);
  if (!match) return [connectionString];
  const [, scheme, credentials, hosts, rest] = match as unknown as [string, string, string, string, string];
  return hosts.split(',').map((host) => `${scheme}${credentials}${host}${rest}`);
}

/** The connection strings of the single hosts of one that may name several (`postgres://user@a:5432,b:5432/db`). */
export function splitHosts(connectionString: string): string[] {
  const match = /^([a-z]+:\/\/)((?:[^@/]*@)?)([^/?]*)(.*)$/.exec(connectionString);
  if (!match) return [connectionString];
  const [, scheme, credentials, hosts, rest] = match as unknown as [string, string, string, string, string];
  return hosts.split(',').map((host) => `${scheme}${credentials}${host}${rest}`);
}

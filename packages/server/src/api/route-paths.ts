/** Which methods the table has at a path, for the answer 405; the router only reports that a route is missing. */
import { ROUTES, type Route } from '@drover/protocol';

export type MethodsAtPath = { allowed: string[]; forAnyone: boolean };

const PATHS = toPatterns(Object.values(ROUTES));

export function methodsAt(path: string): MethodsAtPath | undefined {
  return PATHS.find(({ pattern }) => pattern.test(path))?.methods;
}

function toPatterns(routes: readonly Route[]): { pattern: RegExp; methods: MethodsAtPath }[] {
  const paths = [...new Set(routes.map(({ path }) => path))];
  // A literal path comes before one with a parameter in its place, as in the router.
  paths.sort((a, b) => Number(a.includes(':')) - Number(b.includes(':')));
  return paths.map((path) => {
    const atPath = routes.filter((route) => route.path === path);
    return {
      pattern: new RegExp(`^${path.replaceAll('.', '\\.').replace(/:[a-zA-Z]+/g, '[^/]+')}$`),
      methods: {
        // Every GET route also answers HEAD.
        allowed: atPath.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
        forAnyone: atPath.every(({ roles }) => roles === 'anyone'),
      },
    };
  });
}

/** A hook of Node's module loader. */
const REPLACED = '@drover/protocol/test-points';
const REPLACEMENT = new URL('./test-points.mjs', import.meta.url).href;

export function resolve(specifier, context, next) {
  return specifier === REPLACED ? { url: REPLACEMENT, shortCircuit: true } : next(specifier, context);
}

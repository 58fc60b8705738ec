/** A static SQL statement with the name under which PostgreSQL caches its plan. */
export type Statement = { readonly name: string; readonly text: string };

/**
 * Tags a static statement: sql('claim')`select …`. Values are always parameters; interpolations must be our own
 * constants (a column list, a state literal).
 */
export function sql(name: string): (parts: TemplateStringsArray, ...constants: (string | number)[]) => Statement {
  return (parts, ...constants) => ({ name, text: String.raw({ raw: parts }, ...constants) });
}

/** The parts of a schema of the protocol, for tests of what it lets through and for generated input. */
import type { z } from 'zod';

export type Part = {
  /** Where it is: `outcomes.items[].error.message`. */
  path: string;
  schema: z.ZodType;
  kind: 'leaf' | 'list' | 'bare array';
};

type Definition = {
  type: string;
  shape?: Record<string, z.ZodType>;
  element?: z.ZodType;
  innerType?: z.ZodType;
  options?: readonly z.ZodType[];
  in?: z.ZodType;
  out?: z.ZodType;
  keyType?: z.ZodType;
  valueType?: z.ZodType;
  entries?: Record<string, string | number>;
  values?: readonly unknown[];
};

export function definitionOf(schema: z.ZodType): Definition {
  return schema.def as unknown as Definition;
}

/** Whether its input is checked by a function before the schema, as that of `listSchema` is. */
export function isPreprocessed({ type, in: first }: Definition): boolean {
  return type === 'pipe' && first !== undefined && definitionOf(first).type === 'transform';
}

/** Every leaf and every list of a schema. What a transform makes of an object is not followed. */
export function partsOf(schema: z.ZodType, path: string): Part[] {
  const definition = definitionOf(schema);
  const { type, shape = {}, element, innerType, options = [], in: first, out, keyType, valueType } = definition;
  switch (type) {
    case 'object':
      return Object.entries(shape).flatMap(([key, value]) => partsOf(value, path === '' ? key : `${path}.${key}`));
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
      return partsOf(innerType as z.ZodType, path);
    case 'union':
      return options.flatMap((option) => partsOf(option, path + kindOf(option)));
    case 'record':
      return [...partsOf(keyType as z.ZodType, `${path}{key}`), ...partsOf(valueType as z.ZodType, `${path}{}`)];
    case 'array':
      return [{ path, schema, kind: 'bare array' }, ...partsOf(element as z.ZodType, `${path}[]`)];
    case 'pipe': {
      if (!isPreprocessed(definition)) {
        const inner = partsOf(first as z.ZodType, path);
        return definitionOf(first as z.ZodType).type === 'object' ? inner : [{ path, schema, kind: 'leaf' }];
      }
      const [outer, ...rest] = partsOf(out as z.ZodType, path);
      return outer?.kind === 'bare array'
        ? [{ path, schema, kind: 'list' }, ...rest]
        : [...(outer ? [outer] : []), ...rest];
    }
    default:
      return [{ path, schema, kind: 'leaf' }];
  }
}

/** The `kind` of an alternative that has one, for paths. */
function kindOf(option: z.ZodType): string {
  const kind = definitionOf(option).shape?.kind;
  const values = kind && (kind.def as unknown as { values?: unknown[] }).values;
  return values ? `<${String(values[0])}>` : '';
}

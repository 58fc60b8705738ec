/**
 * The JSON Schema of what a payload's schema accepts, from the libraries that can give one: zod 4, and every library with
 * Standard JSON Schema. Servers check jobs by it that are added without the definition.
 *
 * It must allow everything that the schema accepts, or servers would refuse good jobs. JSON Schema cannot say what a
 * conversion accepts, so that becomes "anything".
 */
import type { StandardSchema } from './standard-schema.js';

type JsonSchema = Record<string, unknown> & { required?: unknown; minLength?: unknown; maxLength?: unknown };

/** What is used of zod. The applications bring it, not this package. */
type ZodSchema = {
  readonly _zod: { readonly def: ZodDef };
  readonly safeParse: (value: unknown) => { readonly success: boolean };
};
type ZodDef = {
  readonly type: string;
  readonly coerce?: boolean;
  readonly in?: ZodSchema;
  readonly shape?: Readonly<Record<string, ZodSchema>>;
  readonly checks?: readonly { readonly _zod: { readonly def: { readonly check: string } } }[];
};
type Override = (context: { zodSchema: ZodSchema; jsonSchema: JsonSchema }) => void;

const TARGET = 'draft-2020-12';
/** Undefined if there is none. */
export function payloadJsonSchema(schema: StandardSchema): JsonSchema | undefined {
  try {
    const { $schema: _, ...found } = zodJsonSchema(schema) ?? standardJsonSchema(schema) ?? {};
    if (Object.keys(found).length === 0) return undefined;
    return accepts(schema, undefined) ? orNull(found) : found;
  } catch {
    // a kind of schema that the library cannot describe
    return undefined;
  }
}

function zodJsonSchema(schema: StandardSchema): JsonSchema | undefined {
  if (schema['~standard'].vendor !== 'zod') return undefined;
  const toJsonSchema: unknown = Reflect.get(schema, 'toJSONSchema');
  if (typeof toJsonSchema !== 'function') return undefined;
  return toJsonSchema.call(schema, { io: 'input', target: TARGET, unrepresentable: 'any', override: loosen });
}

const loosen: Override = ({ zodSchema, jsonSchema }) => {
  const { def } = zodSchema._zod;
  if (converts(def)) for (const name of Object.keys(jsonSchema)) delete jsonSchema[name];
  // what trims or changes the case of a string comes before its limits
  if (def.checks?.some((check) => check._zod.def.check === 'overwrite')) {
    delete jsonSchema.minLength;
    delete jsonSchema.maxLength;
  }
  const { required } = jsonSchema;
  if (def.shape === undefined || !Array.isArray(required)) return;
  const { shape } = def;
  jsonSchema.required = required.filter((name: string) => !mayBeMissing(shape[name]));
};

/** Whether it accepts values of other kinds than those that come out of it. */
function converts({ type, coerce, in: first }: ZodDef): boolean {
  return coerce === true || type === 'catch' || (type === 'pipe' && first?._zod.def.type === 'transform');
}

function mayBeMissing(property: ZodSchema | undefined): boolean {
  try {
    return property === undefined || property.safeParse(undefined).success;
  } catch {
    // an asynchronous check
    return true;
  }
}

function standardJsonSchema(schema: StandardSchema): JsonSchema | undefined {
  if (schema['~standard'].vendor === 'zod') return undefined;
  const { jsonSchema } = schema['~standard'] as { jsonSchema?: { input?: (options: object) => JsonSchema } };
  return jsonSchema?.input?.({ target: TARGET });
}

function accepts(schema: StandardSchema, value: unknown): boolean {
  const checked = schema['~standard'].validate(value);
  if (!(checked instanceof Promise)) return checked.issues === undefined;
  checked.catch(() => {
    // only whether it is asynchronous counts
  });
  return true;
}

/** An omitted payload is null in the database. Undefined: the schema has a form that cannot be widened. */
function orNull(schema: JsonSchema): JsonSchema | undefined {
  const { type, anyOf, enum: choices, const: choice, $ref: reference, allOf } = schema;
  if ([choices, choice, reference, allOf].some((part) => part !== undefined)) return undefined;
  if (typeof type === 'string' || Array.isArray(type)) return { ...schema, type: [type, 'null'].flat() };
  return Array.isArray(anyOf) ? { ...schema, anyOf: [...anyOf, { type: 'null' }] } : undefined;
}

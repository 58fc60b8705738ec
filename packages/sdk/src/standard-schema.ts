/**
 * Standard Schema (https://standardschema.dev): the interface that zod, valibot, arktype and others share. Copied
 * here because it is only an interface; users bring their own library.
 */
import { DroverError, type FieldIssue, fieldName } from '@drover/protocol';

type SchemaIssue = {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
};

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<SchemaIssue> };

export type StandardSchema<Input = unknown, Output = Input> = {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
};

const SHOWN_ISSUES = 20;
const SHOWN_VALUE_LENGTH = 100;
const DATE_REMEDY = 'JSON carries a Date as a string, so use a schema that accepts it, such as z.coerce.date()';

export function isStandardSchema(value: unknown): value is StandardSchema {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  const standard: unknown = Reflect.get(value, '~standard');
  return typeof standard === 'object' && standard !== null && 'validate' in standard;
}

/**
 * The schema's output for a value. Returns a promise only if the schema itself is asynchronous, so that the usual
 * case costs no turn of the microtask queue. `given` is the value before it became JSON.
 */
export function validate<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
  what: string,
  given: unknown = value,
): Output | Promise<Output> {
  const checked = schema['~standard'].validate(value);
  if (checked instanceof Promise) return checked.then((result) => outputOf(result, { value, what, given }));
  return outputOf(checked, { value, what, given });
}

type Subject = { value: unknown; what: string; given: unknown };

function outputOf<Output>(result: SchemaResult<Output>, subject: Subject): Output {
  if (result.issues === undefined) return result.value;
  const issues = result.issues.slice(0, SHOWN_ISSUES).map((issue) => toFieldIssue(issue, subject));
  const sentences = issues.map((issue) =>
    issue.value === undefined
      ? `${issue.field}: ${issue.message}`
      : `${issue.field}: ${issue.message}; the value is ${issue.value}`,
  );
  throw new DroverError('invalid_request', sentences.join('; '), { issues });
}

function toFieldIssue({ path: issuePath = [], message }: SchemaIssue, { value, what, given }: Subject): FieldIssue {
  const path = issuePath.map((part) => (typeof part === 'object' ? part.key : part));
  const field = fieldName([what, ...path]);
  const found = valueAt(value, path);
  if (valueAt(given, path) instanceof Date) return { field, message: `${message}; ${DATE_REMEDY}` };
  return found === undefined ? { field, message } : { field, message, value: shorten(found) };
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (parent, key) => (typeof parent === 'object' && parent !== null ? Reflect.get(parent, key) : undefined),
    root,
  );
}

function shorten(value: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(value) ?? String(value);
  } catch {
    // A cycle or a BigInt: its kind is enough for an error message.
    text = Object.prototype.toString.call(value);
  }
  return text.length > SHOWN_VALUE_LENGTH ? `${text.slice(0, SHOWN_VALUE_LENGTH)}…` : text;
}

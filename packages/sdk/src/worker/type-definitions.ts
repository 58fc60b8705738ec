/** What a worker tells servers about its job types, for jobs that are added by the name of their type. */
import { LIMITS, type TypeDefinition } from '@drover/protocol';
import { JOB, type RunnableJob } from '../job-definition.js';
import { payloadJsonSchema } from '../json-schema.js';
import type { Logger } from '../logger.js';

export function typeDefinitions(jobs: readonly RunnableJob[], logger: Logger): TypeDefinition[] {
  return jobs.map((job) => {
    const { type, complete: _, ...defaults } = job[JOB].defaults;
    const payloadSchema = schemaText(job, logger);
    return { type, defaults, ...(payloadSchema === undefined ? {} : { payloadSchema }) };
  });
}

function schemaText({ type, payload }: RunnableJob, logger: Logger): string | undefined {
  const schema = payload && payloadJsonSchema(payload);
  const text = schema && JSON.stringify(schema);
  if (text === undefined || text.length <= LIMITS.payloadSchemaLength) return text;
  const fields = { event: 'type.schema-too-large', type, characters: text.length, limit: LIMITS.payloadSchemaLength };
  logger.warn(fields, 'JSON Schema of the payload is too large for servers; only workers check jobs added by name');
  return undefined;
}

/** What an enqueue gives back. It remembers the definition, so that `client.result(handle)` is typed. */
import type { JobDefinition } from '../define-job.js';

type ResultDefinition<Result> = JobDefinition<unknown, Result, unknown, unknown>;

export class JobHandle<Result = unknown> {
  readonly id: string;
  /** False if a job with this id existed already. */
  readonly created: boolean;
  readonly type: string;
  readonly #definition: ResultDefinition<Result>;

  constructor(id: string, created: boolean, definition: ResultDefinition<Result>) {
    this.id = id;
    this.created = created;
    this.type = definition.type;
    this.#definition = definition;
  }

  /** The definition a handle was made with. A function, not a property, to stay out of logs and comparisons. */
  static definitionOf<Result>(handle: JobHandle<Result>): ResultDefinition<Result> {
    return handle.#definition;
  }
}

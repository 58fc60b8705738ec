/** Every limit, by name. Limits that an operator can change are defaults here. */
export const LIMITS = {
  /** Bytes of one job's payload as JSON text (default, configurable). */
  payloadBytes: 1024 * 1024,
  /** Levels of nesting in a payload. */
  payloadDepth: 1000,
  /** Bytes of one job's result as JSON text (default, configurable). */
  resultBytes: 1024 * 1024,
  /** Bytes of the progress value of a running job. */
  progressBytes: 64 * 1024,
  /** Jobs in one `POST /jobs/batch`. */
  batchJobs: 10_000,
  workflowSteps: 10_000,
  /** Bytes of a request that registers a workflow. */
  workflowBytes: 8 * 1024 * 1024,
  workflowEdges: 50_000,
  /** Characters of one reference. */
  referenceLength: 1000,
  /** Levels of an input with references. */
  templateDepth: 100,
  /** Items of one map of a workflow. */
  mapItems: 10_000,
  /** Items of a map that run at the same time, if it sets no limit of its own. */
  mapWindow: 1000,
  /** Runs within runs. */
  runDepth: 8,
  /** Bytes of one HTTP request body with many jobs. */
  requestBytes: 64 * 1024 * 1024,
  /** Bytes of one with a single job: the largest payload that an operator can allow, and room for the rest. */
  jobRequestBytes: 33 * 1024 * 1024,
  /** Bytes of any other. */
  bodyBytes: 1024 * 1024,
  /** Values and keys in one request body or frame, which take much more than their text; a list or object counts as five. */
  jsonValues: 1_000_000,
  /** Connections of one server. */
  connections: 10_000,
  /** Connections of one address over which no request of a known caller has come yet. */
  unknownConnections: 2000,
  /** Requests of one caller and address that wait for results on one server. */
  resultWaits: 1000,
  /** Calls of one call stream that wait for answers. */
  callsUnderWay: 1000,
  /** Bytes of one frame on the worker stream. */
  frameBytes: 64 * 1024 * 1024,
  /** Values of progress in one frame. */
  frameItems: 10_000,
  /** Outcomes in one frame. */
  frameOutcomes: 2000,
  /**
   * Grants that one hello may name, and that a session holds. More than `slots` and `prefetch` with every outcome that a
   * worker lets wait for its acknowledgement.
   */
  grants: 50_000,
  /** Children of all outcomes in one frame. */
  frameChildren: 10_000,
  /** Jobs a handler may enqueue as children of one attempt. */
  childrenPerJob: 10_000,
  nameLength: 128,
  noteLength: 1000,
  tags: 20,
  tagLength: 128,
  idempotencyKeyLength: 255,
  maxAttempts: 1000,
  priority: 1000,
  /** Names and codes of errors, and what a worker says of its machine and its library. */
  labelLength: 256,
  errorMessageLength: 8 * 1024,
  errorStackLength: 16 * 1024,
  /** Attempts kept per job. Beyond it, the first ten and the latest are kept. */
  attemptsKept: 50,
  /** Job types a worker may offer. */
  workerTypes: 1000,
  workerQueues: 1000,
  /** Patterns for queues, or for types, of one token. */
  scopePatterns: 100,
  /** Workers of one token on one server. */
  tokenSessions: 1000,
  /** Job types that the cluster knows by their definitions. */
  knownTypes: 2000,
  /** Characters of the JSON Schema of one payload. A worker leaves a longer one out. */
  payloadSchemaLength: 32 * 1024,
  /** How long a definition is kept that no worker offers any more. */
  typeKeptMs: 90 * 24 * 3_600_000,
  workerSlots: 10_000,
  /** Assignments a worker may hold beyond its slots. */
  prefetch: 2000,
  /** Earlier sessions that a worker may name in its hello. */
  previousSessions: 100,
  pageSize: 1000,
  /** Bytes after which a page of a list ends, whatever its size. */
  pageBytes: 4 * 1024 * 1024,
  cursorLength: 1000,
  /** Characters of a cron pattern. */
  cronLength: 256,
  /** Specs of one schedule; also times in one spec, and calendars of one schedule. */
  scheduleSpecs: 20,
  scheduleTimes: 1000,
  scheduleCalendars: 10,
  /** Days in one calendar, or excluded by one schedule. */
  calendarDates: 2000,
  shortestIntervalMs: 1000,
  /** The largest `maxOccurrences`. */
  scheduleOccurrences: 1_000_000_000,
  /** Bytes of the payload that a schedule gives its jobs, as JSON. */
  schedulePayloadBytes: 64 * 1024,
  /** The largest `pauseAfterFailures`. */
  pauseAfterFailures: 20,
  /** Occurrences in one preview, and in the range of one backfill. */
  previewOccurrences: 100,
  backfillOccurrences: 10_000,
  /** The largest `int` of PostgreSQL: fences, connections, process ids. */
  int: 2 ** 31 - 1,
  /** Longest `?wait=` of a result. */
  resultWaitMs: 120_000,
} as const;

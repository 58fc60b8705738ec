export { type Backoff, type BackoffInput, backoffDelayMs, backoffSchema, DEFAULT_BACKOFF } from './backoff.js';
export { describeIssues, fieldName, invalidInput } from './describe-issues.js';
export {
  DURATION_EXPECTED,
  type Duration,
  durationSchema,
  formatDuration,
  MAX_DURATION_MS,
  parseDuration,
} from './duration.js';
export { DroverError, ERRORS, type ErrorBody, type ErrorCode, type FieldIssue, isErrorCode } from './errors.js';
export {
  type Attempt,
  attemptSchema,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_QUEUE,
  type Enqueued,
  enqueuedSchema,
  idSchema,
  type Job,
  type JobError,
  type JobWithAttempts,
  jobDefaultsShape,
  jobErrorSchema,
  jobSchema,
  jobStateSchema,
  jobWithAttemptsSchema,
  type NewJob,
  type NewJobInput,
  nameSchema,
  newJobSchema,
  tagSchema,
  timeSchema,
} from './job.js';
export {
  ALL_STATES,
  FINISHED_STATES,
  isFinished,
  isLegalMove,
  JOB_STATES,
  type JobState,
  type JobVerb,
  MOVES,
  statesBefore,
  UNFINISHED_STATES,
} from './job-lifecycle.js';
export { LIMITS } from './limits.js';
export { nearest } from './nearest.js';
export {
  type DeepPing,
  type Flow,
  type ListJobsInput,
  type ListJobsQuery,
  listJobsQuery,
  type Pause,
  type Queue,
  ROLES,
  ROUTES,
  type Role,
  type Route,
  type RouteAnswer,
  type RouteName,
  type Server,
  type Stats,
  type Worker,
} from './routes.js';
export { createIdGenerator, isUuid, newId } from './uuid.js';
export {
  type Assignment,
  assignmentSchema,
  type Grant,
  type Hello,
  type Outcome,
  outcomeSchema,
  type ServerMessage,
  STREAM_PATH,
  STREAM_VERSION,
  serverMessageSchema,
  type WorkerMessage,
  workerMessageSchema,
} from './worker-messages.js';

/** Encodes an assignment for a worker by hand: its parts are JSON already, or names that need no escapes. */
export type AssignmentParts = {
  id: string;
  fence: number | string;
  type: string;
  queue: string;
  attempt: number | string;
  maxAttempts: number | string;
  /** Absent: none. */
  lostAttempts?: string | null;
  /** It is held when its worker is lost. */
  hold: boolean;
  /** JSON. */
  payload: string;
  /** A JSON object. */
  options: string | null;
};

export function assignmentText({
  id,
  fence,
  type,
  queue,
  attempt,
  maxAttempts,
  lostAttempts = null,
  hold,
  payload,
  options,
}: AssignmentParts): string {
  const lost = lostAttempts === null ? '' : `,"lostAttempts":${lostAttempts}`;
  const held = hold ? ',"hold":true' : '';
  const more = options === null ? `${lost}${held}` : `${lost}${held},"options":${options}`;
  return `{"id":"${id}","fence":${fence},"type":"${type}","queue":"${queue}","attempt":${attempt},"maxAttempts":${maxAttempts}${more},"payload":${payload}}`;
}

/** Errors of the operating system in words, without the path, which the message around them has already. */
const PROBLEMS: Record<string, string> = {
  ENOENT: 'it does not exist',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of the path is not a folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'no space left on the disk',
};

/** Whether it has a message of ours. */
export function isSystemProblem(error: unknown): boolean {
  return Object.hasOwn(PROBLEMS, String((error as { code?: unknown } | null)?.code));
}

export function systemProblem(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return PROBLEMS[code ?? ''] ?? (error instanceof Error ? error.message : String(error));
}

/** At most so many places for each key, so that one caller cannot take the places of all. */
export type Quota = {
  /** Undefined if all places of the key are taken. The result gives the place back, and may be called twice. */
  enter(key: string): (() => void) | undefined;
};

export function createQuota(perKey: number): Quota {
  const taken = new Map<string, number>();

  return {
    enter(key) {
      const present = taken.get(key) ?? 0;
      if (present >= perKey) return undefined;
      taken.set(key, present + 1);
      let isTaken = true;
      return () => {
        if (!isTaken) return;
        isTaken = false;
        const rest = (taken.get(key) ?? 1) - 1;
        if (rest === 0) taken.delete(key);
        else taken.set(key, rest);
      };
    },
  };
}

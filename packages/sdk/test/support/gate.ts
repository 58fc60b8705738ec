/** A signal that a test and a handler can wait for and give. */
export type Gate = { readonly passed: Promise<void>; open(): void };

export function gate(): Gate {
  let open = () => {};
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

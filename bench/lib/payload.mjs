/** The work is the same for every system: about 140 bytes of JSON, different for each job. */
export function makePayload(index) {
  return {
    index,
    to: `customer-${index % 100_000}@example.com`,
    template: 'order-confirmation',
    locale: 'en-GB',
    order: `A-${1_000_000 + index}`,
    total: 1234.5,
  };
}

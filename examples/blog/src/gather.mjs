// Doing the same thing for many values, a few at a time and in order.

/** Requests in flight at once for one page; more would only queue in front of the server. */
const IN_FLIGHT_MAX = 16;

/** `work` for each value; the results in the order of the values. */
export async function gather(values, work) {
  const results = new Array(values.length);
  let next = 0;
  const lane = async () => {
    while (next < values.length) {
      const index = next++;
      results[index] = await work(values[index]);
    }
  };
  await Promise.all(Array.from({ length: Math.min(IN_FLIGHT_MAX, values.length) }, lane));
  return results;
}

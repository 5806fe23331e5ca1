/**
 * Publishes an engine as `peer`, for the driver: `load` as it is, and a `decode` that also reports the page's clock in
 * milliseconds when it began, when the engine called `first(tokens)`, and when it ended.
 */
export function publish({ load, decode }) {
  globalThis.peer = {
    load,
    async decode(request) {
      let first = null;
      let firstTokens = 0;
      const asked = performance.now();
      const output = await decode(request, (tokens) => {
        first ??= performance.now();
        firstTokens ||= tokens;
      });
      return { output, times: { asked, first, firstTokens, end: performance.now() } };
    },
  };
}

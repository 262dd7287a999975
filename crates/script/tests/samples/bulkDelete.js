/**
 * Deletes what a query finds. It asks again after every page, because what was deleted is no longer
 * found, and ends when nothing is left or the server takes no more.
 */
async function bulkDelete(query) {
  const c = getContext().getCollection();
  const state = { deleted: 0, continuation: true };
  const show = () => getContext().getResponse().setBody(state);
  const call = (method, ...given) => new Promise((resolve, reject) => {
    const taken = c[method](...given, (error, rows) => error ? reject(error) : resolve(rows));
    if (!taken) resolve(null);
  });
  show();
  try {
    for (;;) {
      const rows = await call('queryDocuments', c.getSelfLink(), query, {});
      if (rows === null) return show();
      if (rows.length === 0) {
        state.continuation = false;
        return show();
      }
      for (const row of rows) {
        if ((await call('deleteDocument', row._self, {})) === null) return show();
        state.deleted += 1;
      }
    }
  } catch (error) {
    getContext().abort(error);
  }
};

// A post-trigger: the feed holds the newest items only. Its queries do not find the item that is just
// being created, so that one counts as one more.
function truncateFeed() {
  const KEPT = 5;
  const c = getContext().getCollection(), link = c.getSelfLink();
  const query = (text, then) => c.queryDocuments(link, text, (error, rows) => {
    if (error) throw error;
    then(rows);
  });
  query('SELECT VALUE COUNT(1) FROM f', ([found]) => {
    const excess = found + 1 - KEPT;
    if (excess <= 0) return;
    query(`SELECT TOP ${excess} f._self FROM f ORDER BY f.dateCreated`, (oldest) => {
      oldest.forEach(({ _self }) => c.deleteDocument(_self, (error) => { if (error) throw error; }));
    });
  });
}

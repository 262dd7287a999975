// Runs after a post was written to `feed` and removes the oldest beyond a hundred. The post just written is not in
// the queries' answers, so it is added to them by hand; it may itself be the oldest, when an old post was changed.
function keepNewest() {
  const LENGTH = 100;
  const container = getContext().getCollection();
  const written = getContext().getResponse().getBody();
  const others = [{ name: "@id", value: written.id }];

  query({ query: "SELECT VALUE COUNT(1) FROM f WHERE f.id != @id", parameters: others }, ([count]) => {
    const surplus = count + 1 - LENGTH;
    if (surplus > 0) removeOldest(surplus);
  });

  function removeOldest(surplus) {
    const text = `SELECT TOP ${surplus} f._self, f.creationDate FROM f WHERE f.id != @id ORDER BY f.creationDate`;
    query({ query: text, parameters: others }, (oldest) => {
      const candidates = [...oldest, written];
      candidates.sort((a, b) => (a.creationDate < b.creationDate ? -1 : 1));
      for (const post of candidates.slice(0, surplus)) remove(post);
    });
  }

  function query(text, use) {
    insist(container.queryDocuments(container.getSelfLink(), text, (error, rows) => {
      if (error) throw error;
      use(rows);
    }));
  }

  function remove(post) {
    insist(container.deleteDocument(post._self, (error) => {
      if (error) throw error;
    }));
  }

  // A feed that grows is worse than a write that is tried again.
  function insist(taken) {
    if (!taken) throw new Error("There was no time left to shorten the feed.");
  }
}

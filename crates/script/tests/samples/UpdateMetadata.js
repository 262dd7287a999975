// A post-trigger: one item keeps the smallest, the largest and the total size of all others.
function updateMetadata() {
  var made = getContext().getRequest().getBody(), c = getContext().getCollection();
  if (made.isMetadata || !(made.size > 0)) return;
  function must(taken) { if (!taken) throw new Error(449, 'The server takes no more.'); }
  must(c.queryDocuments(c.getSelfLink(), 'SELECT * FROM r WHERE r.isMetadata = true', function (error, found) {
    if (error) throw error;
    if (found.length === 0) throw new Error('There is no item for the metadata.');
    var kept = found[0];
    kept.minSize = kept.minSize > 0 ? Math.min(kept.minSize, made.size) : made.size;
    kept.maxSize = Math.max(kept.maxSize, made.size);
    kept.totalSize += made.size;
    must(c.replaceDocument(kept._self, kept, function (error) { if (error) throw error; }));
  }));
}

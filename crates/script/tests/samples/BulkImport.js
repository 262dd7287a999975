/* Creates the given items one after another and answers how many were created. */
function bulkImport(items) {
  if (!Array.isArray(items)) throw new Error(400, 'An array of items is expected.');
  const target = getContext().getCollection(), link = target.getSelfLink();
  const answer = (count) => getContext().getResponse().setBody(count);
  const createFrom = (at) => {
    answer(at);
    if (at === items.length) return;
    // When the server takes no more, the answer tells the client where to go on.
    target.createDocument(link, items[at], (error) => {
      if (error) throw error;
      createFrom(at + 1);
    });
  };
  createFrom(0);
}

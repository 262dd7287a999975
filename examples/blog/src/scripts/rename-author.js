// Writes a user's new name into the items of this logical partition that still have another one. When time runs out
// it keeps what it did and answers `more: true`, so that the caller calls again.
function renameAuthor(userId, username) {
  const container = getContext().getCollection();
  let renamed = 0;

  const taken = container.queryDocuments(
    container.getSelfLink(),
    {
      query: "SELECT * FROM p WHERE p.userId = @userId AND p.userUsername != @username",
      parameters: [{ name: "@userId", value: userId }, { name: "@username", value: username }],
    },
    (error, items, options) => {
      if (error) throw error;
      renameNext(items, Boolean(options.continuation));
    },
  );
  if (!taken) answer(true);

  function renameNext(items, morePages) {
    const item = items.shift();
    if (!item) return answer(morePages);
    item.userUsername = username;
    const taken = container.replaceDocument(item._self, item, (error) => {
      if (error) throw error;
      renamed += 1;
      renameNext(items, morePages);
    });
    if (!taken) answer(true);
  }

  function answer(more) {
    getContext().getResponse().setBody({ renamed, more });
  }
}

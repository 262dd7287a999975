// Writes a user's new name into everything of a post that shows it.
function updateUsernames(userId, name) {
  const c = getContext().getCollection();
  const shown = { query: 'SELECT * FROM p WHERE p.userId = @user', parameters: [{ name: '@user', value: userId }] };
  (function page(continuation) {
    c.queryDocuments(c.getSelfLink(), shown, { continuation }, (error, items, info) => {
      if (error) throw error;
      for (const item of items) {
        item.userUsername = name;
        c.replaceDocument(item._self, item, (error) => { if (error) throw error; });
      }
      if (info.continuation) page(info.continuation);
    });
  })();
}

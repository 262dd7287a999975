function firstItem(prefix) {
  var c = getContext().getCollection();
  c.queryDocuments(c.getAltLink(), { query: 'SELECT TOP 1 * FROM anything' }, { pageSize: 1 },
    function (error, rows) {
      if (error) throw error;
      getContext().getResponse().setBody(
        rows.length === 0 ? 'no docs found' : prefix + JSON.stringify(rows[0]));
    });
}

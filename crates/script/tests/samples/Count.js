// Counts items, a page of 25 per call; the answer says where the next call goes on.
function (query, token) {
  var PAGE = 25;
  var source = __, link = source.getSelfLink();
  var options = { pageSize: PAGE, continuation: token };

  function report(count, next) {
    __.response.setBody({ count: count, continuationToken: next === undefined ? null : next });
  }
  function counted(error, page, info) {
    if (error) throw new Error(error.number, 'Counting failed: ' + error.message);
    report(page.length, info.continuation);
  }

  var taken = query
    ? source.queryDocuments(link, query, options, counted)
    : source.readDocuments(link, options, counted);
  if (!taken) report(0, token);
}

// Changes one item by operators, the way other databases do: {$inc: {n: 1}, $set: {a: 'b'}, …}.
function update(id, changes) {
  if (!id) throw new Error('An id is needed.');
  if (!changes || typeof changes !== 'object') throw new Error('An object of changes is needed.');

  var operators = {
    $inc: function (item, name, by) { item[name] = (item[name] || 0) + by; },
    $mul: function (item, name, by) { item[name] = (item[name] || 0) * by; },
    $set: function (item, name, value) { item[name] = value; },
    $unset: function (item, name) { delete item[name]; },
    $min: function (item, name, bound) { if (!(item[name] <= bound)) item[name] = bound; },
    $max: function (item, name, bound) { if (!(item[name] >= bound)) item[name] = bound; },
    $rename: function (item, name, other) { item[other] = item[name]; delete item[name]; },
    $push: function (item, name, value) { (item[name] = item[name] || []).push(value); },
    $pop: function (item, name, end) { if (end < 0) item[name].shift(); else item[name].pop(); },
  };
  var c = getContext().getCollection();
  c.queryDocuments(c.getSelfLink(),
    { query: 'SELECT * FROM root r WHERE r.id = @id', parameters: [{ name: '@id', value: id }] },
    function (error, found) {
      if (error) throw error;
      if (!found.length) throw new Error('Document not found.');
      var item = found[0];
      for (var operator in changes) {
        if (!operators[operator]) throw new Error(400, 'Unknown operator ' + operator);
        for (var name in changes[operator]) operators[operator](item, name, changes[operator][name]);
      }
      c.replaceDocument(item._self, item, { etag: item._etag }, function (error, stored) {
        if (error) throw error;
        getContext().getResponse().setBody(stored);
      });
    });
}

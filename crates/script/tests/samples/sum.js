// Adds up one numeric property over the items of a partition.
function sum(feature, filter, token) {
  if (typeof feature !== 'string' || feature === '') {
    throw new Error(400, 'The name of the property to add up is missing.');
  }
  const c = getContext().getCollection();
  const result = { sum: 0, continuationToken: null, documentsProcessed: 0, feature };

  const read = (continuation) => {
    const options = { continuation, pageSize: 50 };
    const taken = filter
      ? c.queryDocuments(c.getSelfLink(), filter, options, add)
      : c.readDocuments(c.getSelfLink(), options, add);
    if (!taken) {
      result.continuationToken = continuation === undefined ? null : continuation;
      finish();
    }
  };
  const add = (error, items, { continuation }) => {
    if (error) throw error;
    for (const item of items) {
      result.documentsProcessed++;
      if (typeof item[feature] === 'number') result.sum += item[feature];
    }
    if (continuation) read(continuation); else finish();
  };
  const finish = () => getContext().getResponse().setBody(result);
  read(token);
}

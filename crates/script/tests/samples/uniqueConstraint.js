// A pre-trigger: no two items may have the same uid. An item named after the uid stands for it, so that
// the second one conflicts.
function uniqueConstraint() {
  const PROPERTY = 'uid';
  const item = getContext().getRequest().getBody(), c = getContext().getCollection();
  if (item.isMetadata) return;
  const value = item[PROPERTY];
  if (value === undefined) throw new Error(400, `The item has no ${PROPERTY}.`);
  const mark = { id: ['__uniqueConstraint', PROPERTY, value].join('_'), isMetadata: true };
  const taken = c.createDocument(c.getSelfLink(), mark, (error) => {
    if (error && error.number === 409) throw new Error(409, `The ${PROPERTY} ${value} is in use.`);
    if (error) throw error;
  });
  if (!taken) throw new Error(449, 'The server takes no more.');
}

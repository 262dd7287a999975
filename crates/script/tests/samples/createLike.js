function createLike(postId, like) {
  const c = getContext().getCollection(), post = c.getAltLink() + '/docs/' + postId;
  // All three are queued at once and run in this order.
  c.readDocument(post, function (error, found) {
    if (error) throw error;
    found.likeCount += 1;
    c.replaceDocument(found._self, found, failed);
  });
  like.postId = postId;
  c.createDocument(c.getSelfLink(), like, failed);
  function failed(error) { if (error) throw error; }
}

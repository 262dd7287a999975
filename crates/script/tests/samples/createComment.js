// Adds a comment to a post and counts it, both or neither.
function createComment(postId, comment) {
  const c = getContext().getCollection();
  c.readDocument(`${c.getAltLink()}/docs/${postId}`, (error, post) => {
    if (error) throw error;
    post.commentCount = (post.commentCount || 0) + 1;
    c.replaceDocument(post._self, post, (error) => {
      if (error) throw error;
      c.createDocument(c.getSelfLink(), Object.assign({}, comment, { postId }), (error) => {
        if (error) throw error;
      });
    });
  });
}

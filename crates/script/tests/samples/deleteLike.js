// Takes back a user's like, if there is one, and corrects the count.
function deleteLike(postId, userId) {
  const c = getContext().getCollection(), link = c.getSelfLink();
  const query = {
    query: "SELECT * FROM p WHERE p.type = 'like' AND p.userId = @user AND p.postId = @post",
    parameters: [{ name: '@user', value: userId }, { name: '@post', value: postId }],
  };
  c.queryDocuments(link, query, (error, likes) => {
    if (error) throw error;
    if (likes.length === 0) return;
    likes.forEach((like) => c.deleteDocument(like._self, (error) => { if (error) throw error; }));
    c.readDocument(c.getAltLink() + '/docs/' + postId, (error, post) => {
      if (error) throw error;
      post.likeCount -= likes.length;
      c.replaceDocument(post._self, post, (error) => { if (error) throw error; });
    });
  });
}

// Adds a comment or a like to a post and counts it: both happen or neither does, however many callers there are.
// A like that exists already changes nothing.
function addToPost(postId, item, counter) {
  const container = getContext().getCollection();

  create();

  function create() {
    const taken = container.createDocument(container.getSelfLink(), item, (error) => {
      if (error && error.number === 409) return answer(false);
      if (error) throw error;
      readPost();
    });
    insist(taken);
  }

  function readPost() {
    const link = `${container.getAltLink()}/docs/${postId}`;
    const taken = container.readDocument(link, (error, post) => {
      // Throwing undoes everything: without its post the new item must not stay.
      if (error) throw error;
      count(post);
    });
    insist(taken);
  }

  function count(post) {
    post[counter] += 1;
    const taken = container.replaceDocument(post._self, post, { etag: post._etag }, (error) => {
      if (error) throw error;
      answer(true);
    });
    insist(taken);
  }

  function answer(added) {
    getContext().getResponse().setBody({ added });
  }

  // The server declines work when a script's time runs out; half of this is worth nothing.
  function insist(taken) {
    if (!taken) throw new Error("There was no time left to finish; nothing was changed.");
  }
}

"""Proves stored procedures, triggers and user functions through the SDK: their life, running them, and
that a script which throws leaves nothing behind."""
import pytest
from azure.cosmos import exceptions

ADD_COMMENT = """
function addComment(postId, comment) {
    var container = getContext().getCollection();
    var link = container.getAltLink() + "/docs/" + postId;
    var accepted = container.readDocument(link, function (error, post) {
        if (error) throw error;
        post.commentCount += 1;
        container.replaceDocument(post._self, post, { etag: post._etag }, function (error) {
            if (error) throw error;
            comment.postId = postId;
            container.createDocument(container.getSelfLink(), comment, function (error, created) {
                if (error) throw error;
                getContext().getResponse().setBody({ count: post.commentCount, id: created.id });
            });
        });
    });
    if (!accepted) throw new Error("not accepted");
}
"""


@pytest.fixture
def posts(make_container):
    container = make_container("/postId")
    container.create_item({"id": "post", "postId": "post", "commentCount": 0})
    container.scripts.create_stored_procedure({"id": "addComment", "body": ADD_COMMENT})
    return container


def test_procedure_lives_and_dies(container):
    scripts = container.scripts
    body = "function () { getContext().getResponse().setBody('one'); }"
    created = scripts.create_stored_procedure({"id": "s", "body": body})
    assert created["body"] == body
    with pytest.raises(exceptions.CosmosResourceExistsError):
        scripts.create_stored_procedure({"id": "s", "body": body})
    assert scripts.execute_stored_procedure("s", partition_key="p") == "one"
    scripts.replace_stored_procedure("s", {"id": "s", "body": body.replace("one", "two")})
    assert scripts.execute_stored_procedure("s", partition_key="p") == "two"
    assert [script["id"] for script in scripts.list_stored_procedures()] == ["s"]
    scripts.delete_stored_procedure("s")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        scripts.get_stored_procedure("s")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        scripts.execute_stored_procedure("s", partition_key="p")


def test_arguments_arrive_and_answers_leave_as_json(container):
    body = "function (a, b, c) { getContext().getResponse().setBody({a: a, b: b, c: c}); }"
    container.scripts.create_stored_procedure({"id": "echo", "body": body})
    values = [{"x": [1, None]}, "Grüße ☃", 2.5]
    answer = container.scripts.execute_stored_procedure("echo", partition_key="p", params=values)
    assert answer == {"a": values[0], "b": values[1], "c": values[2]}


def test_comment_and_count_change_together(posts):
    for number in range(5):
        answer = posts.scripts.execute_stored_procedure(
            "addComment", partition_key="post", params=["post", {"id": "c%d" % number}]
        )
        assert answer == {"count": number + 1, "id": "c%d" % number}
    rows = posts.query_items("SELECT VALUE COUNT(1) FROM c WHERE c.id != 'post'", partition_key="post")
    assert list(rows) == [posts.read_item("post", "post")["commentCount"]] == [5]


def test_a_throwing_procedure_leaves_nothing_behind(posts):
    comment = {"id": "twice"}
    posts.scripts.execute_stored_procedure("addComment", partition_key="post", params=["post", comment])
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        posts.scripts.execute_stored_procedure(
            "addComment", partition_key="post", params=["post", comment]
        )
    assert refused.value.status_code in (400, 409)
    assert posts.read_item("post", "post")["commentCount"] == 1


def test_script_sees_its_logical_partition_only(posts):
    posts.create_item({"id": "other", "postId": "other", "commentCount": 0})
    with pytest.raises(exceptions.CosmosHttpResponseError):
        posts.scripts.execute_stored_procedure(
            "addComment", partition_key="post", params=["other", {"id": "c"}]
        )
    assert posts.read_item("other", "other")["commentCount"] == 0


def test_script_that_does_not_parse_is_refused(container):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.scripts.create_stored_procedure({"id": "bad", "body": "function ( {"})
    assert refused.value.status_code == 400


def test_endless_script_is_stopped_and_undone(container):
    body = """function () {
        var c = getContext().getCollection();
        c.createDocument(c.getSelfLink(), {id: "made", pk: "p"});
        while (true) {}
    }"""
    container.scripts.create_stored_procedure({"id": "endless", "body": body})
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.scripts.execute_stored_procedure("endless", partition_key="p")
    assert refused.value.status_code in (403, 408)
    assert list(container.query_items("SELECT * FROM c", partition_key="p")) == []


def test_console_log_comes_back(container):
    body = "function () { console.log('first line'); console.log('Grüße'); }"
    container.scripts.create_stored_procedure({"id": "log", "body": body})
    container.scripts.execute_stored_procedure("log", partition_key="p", enable_script_logging=True)
    headers = container.client_connection.last_response_headers
    assert "first" in headers.get("x-ms-documentdb-script-log-results", "")


def test_pre_and_post_triggers_run(container):
    container.scripts.create_trigger(
        {
            "id": "stamp",
            "triggerType": "Pre",
            "triggerOperation": "All",
            "body": "function () { var r = getContext().getRequest(); var item = r.getBody();"
                    " item.stamped = true; r.setBody(item); }",
        }
    )
    container.scripts.create_trigger(
        {
            "id": "refuse",
            "triggerType": "Post",
            "triggerOperation": "Create",
            "body": "function () { throw new Error('no'); }",
        }
    )
    created = container.create_item({"id": "a", "pk": "p"}, pre_trigger_include="stamp")
    assert created["stamped"] is True
    assert "stamped" not in container.create_item({"id": "plain", "pk": "p"})
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.create_item({"id": "b", "pk": "p"}, post_trigger_include="refuse")
    assert refused.value.status_code == 400
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("b", "p")
    assert sorted(trigger["id"] for trigger in container.scripts.list_triggers()) == [
        "refuse", "stamp"
    ]


def test_user_functions_run_inside_queries(container):
    container.scripts.create_user_defined_function(
        {"id": "double", "body": "function (x) { return x === undefined ? undefined : 2 * x; }"}
    )
    for number in range(3):
        container.create_item({"id": str(number), "pk": "p", "n": number})
    rows = container.query_items(
        "SELECT VALUE udf.double(c.n) FROM c WHERE udf.double(c.n) > 0 ORDER BY c.n", partition_key="p"
    )
    assert list(rows) == [2, 4]

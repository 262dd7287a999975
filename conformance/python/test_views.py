"""Proves views (global secondary indexes) as the SDK's own tests use them: created with the SDK's keyword, read
back, listed, replaced, filled from the source, read-only, and deleted before their source."""
import time

import pytest
from azure.cosmos import GlobalSecondaryIndexDefinition, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from conftest import new_name

DEFINITION = "SELECT c.customerId, c.emailAddress FROM c"


@pytest.fixture
def source(database):
    source = database.create_container(new_name("source"), partition_key=PartitionKey(path="/id"))
    yield source
    database.delete_container(source)


@pytest.fixture
def view(database, source):
    view = create(database, source)
    yield view
    database.delete_container(view)


def create(database, source, definition=DEFINITION, key="/emailAddress"):
    return database.create_container(
        new_name("view"),
        partition_key=PartitionKey(path=key),
        global_secondary_index=GlobalSecondaryIndexDefinition(source.id, definition),
    )


def definition_of(properties):
    return properties["globalSecondaryIndexDefinition"]


def wait_until(answers):
    for _ in range(300):
        if answers():
            return
        time.sleep(0.1)
    raise AssertionError("the view does not follow its source")


def test_a_view_reads_back_and_its_source_names_it(database, source, view):
    definition = definition_of(view.read())
    assert definition["sourceCollectionId"] == source.id
    assert definition["sourceCollectionRid"] == source.read()["_rid"]
    assert definition["definition"] == DEFINITION
    views = source.read()["materializedViews"]
    assert [(entry["id"], entry["_rid"]) for entry in views] == [(view.id, view.read()["_rid"])]
    listed = {row["id"]: row for row in database.list_containers()}
    assert definition_of(listed[view.id])["definition"] == DEFINITION


def test_a_view_follows_its_source(source, view):
    for number in range(20):
        source.create_item({"id": str(number), "customerId": number, "emailAddress": "a@%d" % (number % 3), "x": 1})
    wait_until(lambda: len(list(view.read_all_items())) == 20)
    rows = list(view.query_items("SELECT * FROM c", partition_key="a@1"))
    assert sorted(row["customerId"] for row in rows) == [1, 4, 7, 10, 13, 16, 19]
    assert all("x" not in row and "_id" not in row for row in rows)
    wait_until(lambda: definition_of(view.read())["status"] == "Active")

    source.upsert_item({"id": "1", "customerId": 1, "emailAddress": "moved"})
    source.delete_item("4", "4")
    wait_until(lambda: len(list(view.query_items("SELECT * FROM c", partition_key="moved"))) == 1)
    wait_until(lambda: len(list(view.query_items("SELECT * FROM c", partition_key="a@1"))) == 5)


def test_a_view_with_the_key_id_works_as_in_the_sdk_s_tests(database, source):
    view = create(database, source, "SELECT * FROM c", "/id")
    source.create_item({"id": "a", "n": 1})
    wait_until(lambda: len(list(view.read_all_items())) == 1)
    item = next(iter(view.read_all_items()))
    assert item["_id"] == "a" and item["n"] == 1 and item["id"] != "a"
    assert view.read_item(item["id"], item["id"])["_id"] == "a"
    database.delete_container(view)


def test_a_replace_keeps_the_definition(database, source, view):
    policy = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/x/*"}]}
    key = PartitionKey(path="/emailAddress")
    same = GlobalSecondaryIndexDefinition(source.id, DEFINITION)
    database.replace_container(view, partition_key=key, indexing_policy=policy)
    database.replace_container(view, partition_key=key, indexing_policy=policy, global_secondary_index=same)
    other = GlobalSecondaryIndexDefinition(source.id, "SELECT c.emailAddress FROM c")
    with pytest.raises(CosmosHttpResponseError) as refused:
        database.replace_container(view, partition_key=key, global_secondary_index=other)
    assert refused.value.status_code == 400
    properties = view.read()
    assert definition_of(properties)["definition"] == DEFINITION
    assert any(entry["path"] == "/x/*" for entry in properties["indexingPolicy"]["excludedPaths"])


def test_a_view_is_read_only_and_holds_its_source(database, source, view):
    for attempt in [
        lambda: view.create_item({"id": "x", "emailAddress": "a"}),
        lambda: view.upsert_item({"id": "x", "emailAddress": "a"}),
        lambda: view.delete_item("x", "a"),
        lambda: view.patch_item("x", "a", [{"op": "add", "path": "/n", "value": 1}]),
        lambda: view.delete_all_items_by_partition_key("a"),
    ]:
        with pytest.raises(CosmosHttpResponseError) as refused:
            attempt()
        assert refused.value.status_code == 403
    with pytest.raises(CosmosHttpResponseError) as refused:
        database.delete_container(source)
    assert refused.value.status_code == 400


def test_what_is_no_definition_is_refused(database, source):
    for definition in ["SELECT c.a AS b FROM c", "SELECT VALUE c FROM c", "SELECT c.a FROM c WHERE c.b = 1"]:
        with pytest.raises(CosmosHttpResponseError) as refused:
            create(database, source, definition)
        assert refused.value.status_code == 400

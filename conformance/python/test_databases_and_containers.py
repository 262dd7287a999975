"""Proves the life of databases and containers: create, read, list, query, replace, delete, and the
refusals in between; and that policies are kept and echoed."""
import pytest
from azure.core import MatchConditions
from azure.cosmos import PartitionKey, exceptions

from conftest import new_name


def test_database_lives_and_dies(client):
    name = new_name("life")
    database = client.create_database(name)
    properties = database.read()
    assert properties["id"] == name
    assert {"_rid", "_self", "_etag", "_ts", "_colls", "_users"} <= set(properties)
    assert name in [entry["id"] for entry in client.list_databases()]
    found = client.query_databases(
        "SELECT * FROM root r WHERE r.id = @id", parameters=[{"name": "@id", "value": name}]
    )
    assert [entry["id"] for entry in found] == [name]
    with pytest.raises(exceptions.CosmosResourceExistsError):
        client.create_database(name)
    client.delete_database(name)
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        database.read()
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        client.delete_database(name)


def test_container_gets_every_default(container):
    properties = container.read()
    assert properties["partitionKey"] == {"paths": ["/pk"], "kind": "Hash", "version": 2}
    policy = properties["indexingPolicy"]
    assert policy["indexingMode"] == "consistent"
    assert policy["automatic"] is True
    assert {"path": "/*"} in policy["includedPaths"]
    assert {"path": '/"_etag"/?'} in policy["excludedPaths"]
    assert properties["conflictResolutionPolicy"]["mode"] == "LastWriterWins"
    assert {"_rid", "_self", "_etag", "_ts", "_docs", "_sprocs"} <= set(properties)
    assert "defaultTtl" not in properties


def test_container_is_listed_queried_and_deleted(database):
    name = new_name("c")
    container = database.create_container(name, PartitionKey(path="/pk"))
    assert name in [entry["id"] for entry in database.list_containers()]
    found = database.query_containers(
        "SELECT * FROM root r WHERE r.id = @id", parameters=[{"name": "@id", "value": name}]
    )
    assert [entry["id"] for entry in found] == [name]
    with pytest.raises(exceptions.CosmosResourceExistsError):
        database.create_container(name, PartitionKey(path="/other"))
    database.delete_container(name)
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read()


def test_recreated_container_is_empty_and_has_a_new_rid(database):
    name = new_name("again")
    first = database.create_container(name, PartitionKey(path="/pk"))
    first.create_item({"id": "a", "pk": "p"})
    old = first.read()["_rid"]
    database.delete_container(name)
    second = database.create_container(name, PartitionKey(path="/pk"))
    assert second.read()["_rid"] != old
    assert list(second.read_all_items()) == []
    # The first client object holds the old id in its cache and must recover by itself.
    first.create_item({"id": "b", "pk": "p"})
    assert second.read_item("b", "p")["id"] == "b"
    database.delete_container(name)


def test_indexing_policy_and_ttl_are_replaced(database, make_container):
    container = make_container()
    container.create_item({"id": "a", "pk": "p", "kept": 1, "dropped": 2})
    policy = {
        "indexingMode": "consistent",
        "automatic": True,
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/dropped/?"}, {"path": '/"_etag"/?'}],
        "compositeIndexes": [
            [{"path": "/kept", "order": "ascending"}, {"path": "/dropped", "order": "descending"}]
        ],
    }
    database.replace_container(
        container, PartitionKey(path="/pk"), indexing_policy=policy, default_ttl=3600
    )
    properties = container.read()
    assert properties["defaultTtl"] == 3600
    assert {"path": "/dropped/?"} in properties["indexingPolicy"]["excludedPaths"]
    composite = properties["indexingPolicy"]["compositeIndexes"]
    assert [[part["path"] for part in index] for index in composite] == [["/kept", "/dropped"]]
    # The data is still there and still found, by an indexed and by an excluded path.
    for predicate in ("c.kept = 1", "c.dropped = 2"):
        rows = container.query_items("SELECT * FROM c WHERE " + predicate, partition_key="p")
        assert [row["id"] for row in rows] == ["a"]


def test_partition_key_cannot_be_replaced(database, make_container):
    container = make_container()
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        database.replace_container(container, PartitionKey(path="/other"))
    assert refused.value.status_code == 400


@pytest.mark.parametrize(
    "change",
    [
        {"default_ttl": 0},
        {"indexing_policy": {"indexingMode": "consistent", "includedPaths": [{"path": "no slash"}]}},
        {"indexing_policy": {"indexingMode": "sometimes"}},
        {"unique_key_policy": {"uniqueKeys": [{"paths": []}]}},
    ],
    ids=["ttl-zero", "bad-path", "bad-mode", "empty-unique-key"],
)
def test_nonsense_in_a_definition_is_refused(database, change):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        database.create_container(new_name("bad"), PartitionKey(path="/pk"), **change)
    assert refused.value.status_code == 400


def test_stale_etag_refuses_the_replacement_of_a_container(database, make_container):
    container = make_container()
    with pytest.raises(exceptions.CosmosAccessConditionFailedError):
        database.replace_container(
            container,
            PartitionKey(path="/pk"),
            default_ttl=60,
            etag='"not-the-etag"',
            match_condition=MatchConditions.IfNotModified,
        )
    assert "defaultTtl" not in container.read()


def test_computed_properties_and_unknown_fields_are_kept(make_container):
    computed = [{"name": "lowerName", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    container = make_container(computed_properties=computed)
    assert container.read()["computedProperties"] == computed


def test_missing_parents_are_named(client):
    ghost = client.get_database_client(new_name("ghost"))
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        ghost.create_container("c", PartitionKey(path="/pk"))
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        ghost.get_container_client("c").read_item("a", "p")

"""Proves that a client which has used a container before it was re-keyed goes on using it: the SDK reads the container
again by itself, items keep their versions, tokens of permissions are given anew, and the old container takes no writes."""
import time

import pytest
from azure.core import MatchConditions
from azure.cosmos import CosmosClient
from azure.cosmos.exceptions import CosmosHttpResponseError

from raw import Raw


@pytest.fixture
def rekey(endpoint, key, database):
    """A function that re-keys a container and returns the name of the old one."""
    raw, old = Raw(endpoint, key), []

    def run(container, path):
        route = "/_armilla/rekey/dbs/%s/colls/%s" % (database.id, container.id)
        wish = '{"partitionKey":{"paths":["%s"],"kind":"Hash","version":2}}' % path
        assert raw.send("POST", route, body=wish).status == 201
        for _ in range(600):
            if raw.send("GET", route).json()["state"] == "following":
                break
            time.sleep(0.05)
        checked = raw.send("POST", route + "/check", body="{}").json()
        assert checked["different"] == []
        swapped = raw.send("POST", route + "/swap", body="{}")
        assert swapped.status == 200, swapped.body
        old.append(swapped.json()["old"]["id"])
        return old[-1]

    yield run
    for name in old:
        database.delete_container(name)


def test_a_client_goes_on_with_a_container_that_was_rekeyed(database, container, rekey):
    made = [container.create_item({"id": str(n), "pk": "p%d" % (n % 3), "k": "k%d" % (n % 2)}) for n in range(10)]
    old = rekey(container, "/k")
    # The same object: what the SDK knows of the container is out of date.
    item = container.read_item("3", partition_key="k1")
    assert (item["_etag"], item["_ts"]) == (made[3]["_etag"], made[3]["_ts"])
    assert item["_rid"] != made[3]["_rid"]
    created = container.create_item({"id": "new", "pk": "p1", "k": "k9"})
    assert container.read_item("new", partition_key="k9")["_etag"] == created["_etag"]
    # A version that was read before is still one to compare with.
    changed = dict(item, n=1)
    container.replace_item("3", changed, etag=made[3]["_etag"], match_condition=MatchConditions.IfNotModified)
    found = list(container.query_items("SELECT VALUE c.id FROM c WHERE c.k = 'k0'", partition_key="k0"))
    assert sorted(found) == ["0", "2", "4", "6", "8"]
    with pytest.raises(CosmosHttpResponseError) as refused:
        # Who was on the way in that second is told to come again; after it the answer is final.
        time.sleep(1.1)
        database.get_container_client(old).create_item({"id": "late", "pk": "p1"})
    assert refused.value.status_code == 403
    assert len(list(database.get_container_client(old).read_all_items())) == 10


def test_tokens_are_given_anew_and_narrow_permissions_stay(endpoint, database, container, rekey):
    container.create_item({"id": "1", "pk": "p1", "k": "k1"})
    user = database.create_user({"id": "reader"})
    whole = {"id": "whole", "permissionMode": "Read", "resource": "dbs/%s/colls/%s" % (database.id, container.id)}
    user.create_permission(whole)
    user.create_permission(dict(whole, id="narrow", resourcePartitionKey=["p1"]))
    before = user.get_permission("whole").properties["_token"]
    old = rekey(container, "/k")

    def read(token, name):
        resource = "dbs/%s/colls/%s" % (database.id, name)
        with CosmosClient(endpoint, {resource: token}, connection_verify=False) as client:
            reader = client.get_database_client(database.id).get_container_client(name)
            return reader.read_item("1", partition_key="k1" if name == container.id else "p1")

    with pytest.raises(CosmosHttpResponseError) as refused:
        read(before, container.id)
    assert refused.value.status_code == 403
    assert read(user.get_permission("whole").properties["_token"], container.id)["k"] == "k1"
    narrow = user.get_permission("narrow").properties
    assert narrow["resource"] == "dbs/%s/colls/%s" % (database.id, old)
    assert read(narrow["_token"], old)["pk"] == "p1"
    database.delete_user("reader")

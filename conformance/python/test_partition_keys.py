"""Proves that items are found under partition keys of every kind: text, numbers, booleans, null, absent,
nested, hierarchical with full key and prefix; and that feed ranges cover a container exactly once."""
import pytest
from azure.cosmos import PartitionKey, exceptions
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

KEYS = ["text", "", "Grüße ☃", "x" * 500, 0, 5, -1.5, 1e100, True, False]


@pytest.mark.parametrize("value", KEYS, ids=lambda value: repr(value)[:20])
def test_scalar_keys(container, value):
    container.create_item({"id": "a", "pk": value, "n": 1})
    assert container.read_item("a", value)["n"] == 1
    container.upsert_item({"id": "a", "pk": value, "n": 2})
    container.patch_item("a", value, [{"op": "incr", "path": "/n", "value": 1}])
    assert list(container.query_items("SELECT VALUE c.n FROM c", partition_key=value)) == [3]
    container.delete_item("a", value)
    assert list(container.query_items("SELECT * FROM c", partition_key=value)) == []


def test_whole_number_and_double_are_one_key(container):
    container.create_item({"id": "a", "pk": 5})
    assert container.read_item("a", 5.0)["id"] == "a"
    with pytest.raises(exceptions.CosmosResourceExistsError):
        container.create_item({"id": "a", "pk": 5.0})


def test_text_and_number_are_different_keys(container):
    container.create_item({"id": "a", "pk": 5, "kind": "number"})
    container.create_item({"id": "a", "pk": "5", "kind": "text"})
    container.create_item({"id": "a", "pk": True, "kind": "truth"})
    container.create_item({"id": "a", "pk": "true", "kind": "text of truth"})
    for key, kind in ((5, "number"), ("5", "text"), (True, "truth"), ("true", "text of truth")):
        assert container.read_item("a", key)["kind"] == kind


def test_null_and_absent_are_different_keys(container):
    container.create_item({"id": "a", "pk": None, "kind": "null"})
    container.create_item({"id": "a", "kind": "absent"})
    assert container.read_item("a", NullPartitionKeyValue)["kind"] == "null"
    assert container.read_item("a", NonePartitionKeyValue)["kind"] == "absent"
    rows = container.query_items("SELECT VALUE c.kind FROM c", partition_key=NonePartitionKeyValue)
    assert list(rows) == ["absent"]
    container.delete_item("a", NonePartitionKeyValue)
    assert container.read_item("a", NullPartitionKeyValue)["kind"] == "null"


def test_nested_and_quoted_key_paths(make_container):
    nested = make_container("/address/city")
    nested.create_item({"id": "a", "address": {"city": "Ulm"}})
    assert nested.read_item("a", "Ulm")["address"] == {"city": "Ulm"}
    assert list(nested.query_items("SELECT VALUE c.id FROM c", partition_key="Ulm")) == ["a"]


def test_the_id_as_key(make_container):
    container = make_container("/id")
    for number in range(20):
        container.create_item({"id": str(number)})
    assert container.read_item("7", "7")["id"] == "7"
    assert len(list(container.read_all_items())) == 20


@pytest.fixture
def tenants(make_container):
    key = PartitionKey(path=["/tenant", "/user", "/session"], kind="MultiHash")
    container = make_container(key)
    for tenant in ("t1", "t2"):
        for user in ("u1", "u2"):
            for session in (1, 2):
                container.create_item(
                    {"id": "%s-%s-%d" % (tenant, user, session), "tenant": tenant, "user": user,
                     "session": session}
                )
    return container


def test_hierarchical_key_names_one_item(tenants):
    assert tenants.read()["partitionKey"]["kind"] == "MultiHash"
    item = tenants.read_item("t1-u2-1", ["t1", "u2", 1])
    assert (item["tenant"], item["user"], item["session"]) == ("t1", "u2", 1)
    tenants.replace_item("t1-u2-1", {**item, "seen": True})
    tenants.patch_item("t1-u2-1", ["t1", "u2", 1], [{"op": "set", "path": "/more", "value": 1}])
    tenants.delete_item("t1-u2-1", ["t1", "u2", 1])
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        tenants.read_item("t1-u2-1", ["t1", "u2", 1])


@pytest.mark.parametrize(
    "prefix, count", [(["t1"], 4), (["t1", "u2"], 2), (["t1", "u2", 2], 1), (["t9"], 0)], ids=repr
)
def test_prefix_of_a_hierarchical_key_finds_the_subtree(tenants, prefix, count):
    rows = list(tenants.query_items("SELECT VALUE c.id FROM c", partition_key=prefix))
    assert len(rows) == len(set(rows)) == count
    assert all(row.startswith(prefix[0]) for row in rows)


def test_batch_in_a_hierarchical_key(tenants):
    results = tenants.execute_item_batch(
        [("create", ({"id": str(n), "tenant": "t3", "user": "u", "session": 1},)) for n in range(3)],
        partition_key=["t3", "u", 1],
    )
    assert [result["statusCode"] for result in results] == [201, 201, 201]


def test_feed_ranges_cover_the_container_once(make_container):
    container = make_container(offer_throughput=30000)
    for number in range(100):
        container.create_item({"id": str(number), "pk": "key %d" % number})
    ranges = list(container.read_feed_ranges())
    assert len(ranges) >= 2
    seen = []
    for feed_range in ranges:
        seen += container.query_items("SELECT VALUE c.id FROM c", feed_range=feed_range)
    assert sorted(seen, key=int) == [str(number) for number in range(100)]


def test_feed_range_of_a_key_holds_that_key_only(make_container):
    container = make_container()
    for key in ("a", "b", "c"):
        container.create_item({"id": "1", "pk": key})
    feed_range = container.feed_range_from_partition_key("b")
    rows = container.query_items("SELECT VALUE c.pk FROM c", feed_range=feed_range)
    assert list(rows) == ["b"]
    whole = list(container.read_feed_ranges())
    assert any(container.is_feed_range_subset(parent, feed_range) for parent in whole)

"""Proves partial updates (every operation, conditions, atomicity) and transactional batches (all
operations, order, rollback with 207 and 424 underneath)."""
import pytest
from azure.cosmos import exceptions


@pytest.fixture
def item(container):
    container.create_item(
        {
            "id": "a",
            "pk": "p",
            "n": 1,
            "text": "old",
            "list": [1, 2, 3],
            "deep": {"x": {"y": 1}},
            "gone": True,
            "odd/name": 1,
            "til~de": 1,
        }
    )
    return container


def patch(container, *operations, **options):
    return container.patch_item("a", "p", list(operations), **options)


def test_every_operation_does_its_work(item):
    result = patch(
        item,
        {"op": "add", "path": "/new", "value": {"k": [1]}},
        {"op": "set", "path": "/text", "value": "new"},
        {"op": "replace", "path": "/deep/x/y", "value": 2},
        {"op": "remove", "path": "/gone"},
        {"op": "incr", "path": "/n", "value": 2.5},
        {"op": "add", "path": "/list/1", "value": "inserted"},
        {"op": "add", "path": "/list/-", "value": "appended"},
        {"op": "set", "path": "/list/0", "value": "overwritten"},
        {"op": "move", "from": "/deep/x", "path": "/moved"},
        {"op": "incr", "path": "/counter", "value": 5},
    )
    assert result["new"] == {"k": [1]}
    assert result["text"] == "new"
    assert result["n"] == 3.5
    assert result["list"] == ["overwritten", "inserted", 2, 3, "appended"]
    assert result["deep"] == {}
    assert result["moved"] == {"y": 2}
    assert result["counter"] == 5
    assert "gone" not in result
    assert item.read_item("a", "p") == result


def test_names_with_slash_and_tilde_are_escaped(item):
    result = patch(
        item,
        {"op": "set", "path": "/odd~1name", "value": 2},
        {"op": "set", "path": "/til~0de", "value": 3},
    )
    assert (result["odd/name"], result["til~de"]) == (2, 3)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "remove", "path": "/missing"},
        {"op": "add", "path": "/no/parent", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "incr", "path": "/text", "value": 1},
        {"op": "move", "from": "/missing", "path": "/x"},
        {"op": "set", "path": "/id", "value": "b"},
        {"op": "set", "path": "/pk", "value": "q"},
        {"op": "set", "path": "/_etag", "value": "x"},
        {"op": "explode", "path": "/n", "value": 1},
        {"op": "set", "path": "n", "value": 1},
    ],
    ids=lambda operation: "%s %s" % (operation["op"], operation["path"]),
)
def test_a_refused_operation_changes_nothing(item, operation):
    before = item.read_item("a", "p")
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        patch(item, {"op": "incr", "path": "/n", "value": 1}, operation)
    assert refused.value.status_code == 400
    assert item.read_item("a", "p") == before


def test_more_than_ten_operations_are_refused(item):
    operations = [{"op": "incr", "path": "/n", "value": 1}] * 11
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        patch(item, *operations)
    assert refused.value.status_code == 400


def test_condition_decides(item):
    done = patch(
        item, {"op": "incr", "path": "/n", "value": 1}, filter_predicate="FROM c WHERE c.n = 1"
    )
    assert done["n"] == 2
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        patch(item, {"op": "incr", "path": "/n", "value": 1}, filter_predicate="FROM c WHERE c.n = 1")
    assert refused.value.status_code == 412
    assert item.read_item("a", "p")["n"] == 2


def test_batch_does_all_in_order(container):
    container.create_item({"id": "old", "pk": "p", "n": 1})
    container.create_item({"id": "dies", "pk": "p"})
    results = container.execute_item_batch(
        [
            ("create", ({"id": "new", "pk": "p", "n": 0},)),
            ("patch", ("new", [{"op": "incr", "path": "/n", "value": 1}]),
             {"filter_predicate": "from c where c.n = 0"}),
            ("read", ("new",)),
            ("upsert", ({"id": "upserted", "pk": "p"},)),
            ("replace", ("old", {"id": "old", "pk": "p", "n": 2})),
            ("delete", ("dies",)),
        ],
        partition_key="p",
    )
    assert [result["statusCode"] for result in results] == [201, 200, 200, 201, 200, 204]
    assert results[2]["resourceBody"]["n"] == 1
    assert all(result["requestCharge"] > 0 for result in results)
    ids = container.query_items("SELECT VALUE c.id FROM c", partition_key="p")
    assert sorted(ids) == ["new", "old", "upserted"]


def test_failed_batch_leaves_nothing_behind(container):
    container.create_item({"id": "taken", "pk": "p", "n": 1})
    with pytest.raises(exceptions.CosmosBatchOperationError) as refused:
        container.execute_item_batch(
            [
                ("create", ({"id": "first", "pk": "p"},)),
                ("patch", ("taken", [{"op": "incr", "path": "/n", "value": 1}])),
                ("create", ({"id": "taken", "pk": "p"},)),
                ("create", ({"id": "last", "pk": "p"},)),
            ],
            partition_key="p",
        )
    assert refused.value.error_index == 2
    assert refused.value.status_code == 409
    statuses = [result["statusCode"] for result in refused.value.operation_responses]
    assert statuses == [424, 424, 409, 424]
    assert list(container.query_items("SELECT VALUE c.n FROM c", partition_key="p")) == [1]


@pytest.mark.parametrize(
    "operation, status",
    [
        (("read", ("missing",)), 404),
        (("replace", ("a", {"id": "a", "pk": "p"}), {"if_match_etag": '"stale"'}), 412),
        (("patch", ("a", [{"op": "incr", "path": "/n", "value": 1}]),
          {"filter_predicate": "from c where c.n > 99"}), 412),
        (("create", ({"id": "b", "pk": "elsewhere"},)), 400),
    ],
    ids=["missing", "stale-etag", "condition", "other-key"],
)
def test_each_failure_keeps_its_status(container, operation, status):
    container.create_item({"id": "a", "pk": "p", "n": 1})
    with pytest.raises((exceptions.CosmosBatchOperationError, exceptions.CosmosHttpResponseError)) as refused:
        container.execute_item_batch(
            [("create", ({"id": "first", "pk": "p"},)), operation], partition_key="p"
        )
    assert refused.value.status_code == status
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("first", "p")


def test_batch_of_a_hundred_is_the_limit(container):
    def operations(count):
        return [("create", ({"id": str(number), "pk": "p"},)) for number in range(count)]

    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.execute_item_batch(operations(101), partition_key="p")
    assert refused.value.status_code == 400
    assert len(container.execute_item_batch(operations(100), partition_key="p")) == 100

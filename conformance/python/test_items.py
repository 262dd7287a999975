"""Proves every verb on items: create, read, upsert, replace, delete, etags, contents that come back as
they went in, ids of every kind, sizes, and the refusals."""
import json

import pytest
from azure.core import MatchConditions
from azure.cosmos import exceptions

SYSTEM = ("_rid", "_self", "_etag", "_attachments", "_ts")


def user_part(item):
    return {name: value for name, value in item.items() if name not in SYSTEM}


def test_item_lives_and_dies(container):
    item = {"id": "a", "pk": "p", "count": 1}
    created = container.create_item(item)
    assert user_part(created) == item
    assert set(SYSTEM) <= set(created)
    with pytest.raises(exceptions.CosmosResourceExistsError):
        container.create_item(item)
    replaced = container.replace_item("a", {"id": "a", "pk": "p", "count": 2})
    assert replaced["count"] == 2
    assert replaced["_rid"] == created["_rid"]
    assert replaced["_etag"] != created["_etag"]
    assert container.read_item("a", "p") == replaced
    container.delete_item("a", "p")
    for refused in (
        lambda: container.read_item("a", "p"),
        lambda: container.delete_item("a", "p"),
        lambda: container.replace_item("a", {"id": "a", "pk": "p"}),
        lambda: container.patch_item("a", "p", [{"op": "set", "path": "/x", "value": 1}]),
    ):
        with pytest.raises(exceptions.CosmosResourceNotFoundError):
            refused()


def test_upsert_creates_then_replaces(container):
    first = container.upsert_item({"id": "a", "pk": "p", "n": 1})
    second = container.upsert_item({"id": "a", "pk": "p", "n": 2})
    assert first["_rid"] == second["_rid"]
    assert container.read_item("a", "p")["n"] == 2


def test_responses_carry_charge_session_and_etag(container):
    created = container.create_item({"id": "a", "pk": "p"})
    headers = created.get_response_headers()
    assert float(headers["x-ms-request-charge"]) > 0
    assert headers["x-ms-session-token"].count("#") == 1
    assert headers["etag"] == created["_etag"]
    assert headers["x-ms-activity-id"]
    read = container.read_item("a", "p").get_response_headers()
    assert float(read["x-ms-request-charge"]) == 1.0


def test_same_id_lives_once_per_logical_partition(container):
    container.create_item({"id": "a", "pk": "one", "n": 1})
    container.create_item({"id": "a", "pk": "two", "n": 2})
    assert container.read_item("a", "one")["n"] == 1
    assert container.read_item("a", "two")["n"] == 2
    container.delete_item("a", "one")
    assert container.read_item("a", "two")["n"] == 2


def test_contents_come_back_as_they_went_in(container):
    item = {
        "id": "everything",
        "pk": "p",
        "text": "Grüße ☃ 🪐 \" \\ / \b\f\n\r\t \u0001",
        "numbers": [0, -1, 1.5, 1e300, -2.5e-10, 9007199254740991, 0.1],
        "nothing": None,
        "truth": [True, False],
        "nested": {"a": [{"b": {"c": []}}, [[]], {}], "": "empty name", "ü": "other name"},
        "order": {"z": 1, "a": 2, "m": 3},
    }
    container.create_item(item)
    read = container.read_item("everything", "p")
    assert user_part(read) == item
    assert list(read["order"]) == ["z", "a", "m"]
    assert json.dumps(read["numbers"]) == json.dumps(item["numbers"])


@pytest.mark.parametrize(
    "item_id",
    # The SDK itself refuses ? and # and control characters; raw requests and the JavaScript SDK try those.
    ["plain", "with space", "ümläut ☃", "a+b", "100%", "quote\"s", "semi;colon", "%2F", "x" * 255,
     "ends.", "[brackets]", "🪐"],
)
def test_odd_ids_are_found_again(container, item_id):
    container.create_item({"id": item_id, "pk": "p"})
    assert container.read_item(item_id, "p")["id"] == item_id
    container.replace_item(item_id, {"id": item_id, "pk": "p", "seen": True})
    rows = container.query_items(
        "SELECT VALUE c.id FROM c WHERE c.id = @id",
        parameters=[{"name": "@id", "value": item_id}],
        partition_key="p",
    )
    assert list(rows) == [item_id]
    container.delete_item(item_id, "p")


@pytest.mark.parametrize("item_id", [7, None, True, [], ""], ids=repr)
def test_ids_that_are_no_text_are_refused(container, item_id):
    with pytest.raises(Exception) as refused:
        container.create_item({"id": item_id, "pk": "p"})
    assert getattr(refused.value, "status_code", 400) == 400


def test_missing_id_is_refused_unless_the_sdk_makes_one(container):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.create_item({"pk": "p"})
    assert refused.value.status_code == 400
    made = container.create_item({"pk": "p"}, enable_automatic_id_generation=True)
    assert container.read_item(made["id"], "p")


def test_etag_guards_replace_upsert_patch_and_delete(container):
    old = container.create_item({"id": "a", "pk": "p", "n": 1})["_etag"]
    current = container.replace_item("a", {"id": "a", "pk": "p", "n": 2})["_etag"]
    stale = {"etag": old, "match_condition": MatchConditions.IfNotModified}
    fresh = {"etag": current, "match_condition": MatchConditions.IfNotModified}
    for refused in (
        lambda: container.replace_item("a", {"id": "a", "pk": "p", "n": 3}, **stale),
        lambda: container.upsert_item({"id": "a", "pk": "p", "n": 3}, **stale),
        lambda: container.patch_item("a", "p", [{"op": "incr", "path": "/n", "value": 1}], **stale),
        lambda: container.delete_item("a", "p", **stale),
    ):
        with pytest.raises(exceptions.CosmosAccessConditionFailedError):
            refused()
    assert container.read_item("a", "p")["n"] == 2
    assert container.replace_item("a", {"id": "a", "pk": "p", "n": 3}, **fresh)["n"] == 3


def test_read_of_an_unchanged_item_answers_not_modified(container):
    etag = container.create_item({"id": "a", "pk": "p"})["_etag"]
    headers = {}
    container.read_item(
        "a", "p", initial_headers={"If-None-Match": etag},
        response_hook=lambda received, _: headers.update(received),
    )
    assert headers["etag"] == etag
    assert container.read_item("a", "p", initial_headers={"If-None-Match": '"other"'})["id"] == "a"


def test_key_in_header_and_body_must_agree(container):
    container.create_item({"id": "a", "pk": "p"})
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        # The SDK takes the header from the body; a moved item is what a mismatch looks like.
        container.patch_item("a", "p", [{"op": "set", "path": "/pk", "value": "q"}])
    assert refused.value.status_code == 400


def test_item_of_two_megabytes_is_the_limit(container):
    near = {"id": "near", "pk": "p", "text": "x" * (2 * 1024 * 1024 - 2000)}
    container.create_item(near)
    assert len(container.read_item("near", "p")["text"]) == len(near["text"])
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.create_item({"id": "over", "pk": "p", "text": "x" * (2 * 1024 * 1024 + 10)})
    assert refused.value.status_code == 413


def test_no_response_still_writes(container):
    assert dict(container.create_item({"id": "a", "pk": "p", "n": 1}, no_response=True)) == {}
    assert dict(container.upsert_item({"id": "a", "pk": "p", "n": 2}, no_response=True)) == {}
    assert container.read_item("a", "p")["n"] == 2


def test_many_items_are_read_together(container):
    wanted = []
    for number in range(60):
        pk = "p%d" % (number % 7)
        container.create_item({"id": str(number), "pk": pk, "n": number})
        if number % 2:
            wanted.append((str(number), pk))
    read = container.read_items(wanted + [("missing", "p0")])
    assert sorted(item["id"] for item in read) == sorted(item_id for item_id, _ in wanted)


def test_all_items_of_a_key_vanish_together(container):
    for number in range(30):
        container.create_item({"id": str(number), "pk": "gone"})
        container.create_item({"id": str(number), "pk": "kept"})
    container.delete_all_items_by_partition_key("gone")
    assert list(container.query_items("SELECT * FROM c", partition_key="gone")) == []
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("3", "gone")
    assert len(list(container.query_items("SELECT * FROM c", partition_key="kept"))) == 30
    container.create_item({"id": "3", "pk": "gone", "new": True})
    rows = container.query_items("SELECT VALUE c.new FROM c", partition_key="gone")
    assert list(rows) == [True]

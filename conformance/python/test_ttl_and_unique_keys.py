"""Proves that items vanish on time (from reads, queries and counts at once) and that unique keys hold
inside a logical partition, through updates, deletes and batches."""
import time

import pytest
from azure.cosmos import exceptions


def ids(container, key="p"):
    return sorted(container.query_items("SELECT VALUE c.id FROM c", partition_key=key))


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within %d s" % seconds
        time.sleep(0.2)


def test_items_expire_by_default_and_by_their_own_time(make_container):
    # Seconds, so that a busy machine too looks before they are over.
    container = make_container(default_ttl=5)
    container.create_item({"id": "default", "pk": "p"})
    container.create_item({"id": "longer", "pk": "p", "ttl": 100})
    container.create_item({"id": "never", "pk": "p", "ttl": -1})
    assert ids(container) == ["default", "longer", "never"]
    wait_until(lambda: ids(container) == ["longer", "never"])
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        container.read_item("default", "p")
    counted = container.query_items("SELECT VALUE COUNT(1) FROM c", partition_key="p")
    assert list(counted) == [2]
    # The id is free again, and the newcomer is a new item.
    container.create_item({"id": "default", "pk": "p"})
    assert container.read_item("default", "p")


def test_a_write_prolongs_the_life(make_container):
    ttl = 4
    container = make_container(default_ttl=ttl)
    container.create_item({"id": "a", "pk": "p"})
    end = time.monotonic() + ttl + 1.5
    while time.monotonic() < end:
        time.sleep(0.5)
        # Refused, were the item gone.
        container.replace_item("a", {"id": "a", "pk": "p"})
    assert ids(container) == ["a"]


def test_ttl_means_nothing_while_it_is_off(container):
    container.create_item({"id": "a", "pk": "p", "ttl": 1})
    time.sleep(2.5)
    assert ids(container) == ["a"]


def test_own_time_works_when_the_default_is_never(make_container):
    container = make_container(default_ttl=-1)
    container.create_item({"id": "stays", "pk": "p"})
    container.create_item({"id": "goes", "pk": "p", "ttl": 1})
    wait_until(lambda: ids(container) == ["stays"])


@pytest.mark.parametrize("ttl", [0, -2, "soon", 1.5, [], 2**31], ids=repr)
def test_impossible_times_are_refused(make_container, ttl):
    container = make_container(default_ttl=100)
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.create_item({"id": "a", "pk": "p", "ttl": ttl})
    assert refused.value.status_code == 400


@pytest.fixture
def unique(make_container):
    keys = [{"paths": ["/mail"]}, {"paths": ["/name/first", "/name/last"]}]
    return make_container(unique_key_policy={"uniqueKeys": keys})


def person(item_id, mail, first="f", last=None, pk="p"):
    return {"id": item_id, "pk": pk, "mail": mail, "name": {"first": first, "last": last or item_id}}


def test_unique_values_hold_inside_a_partition(unique):
    unique.create_item(person("1", "a@x"))
    with pytest.raises(exceptions.CosmosResourceExistsError):
        unique.create_item(person("2", "a@x"))
    unique.create_item(person("1", "a@x", pk="elsewhere"))
    with pytest.raises(exceptions.CosmosResourceExistsError):
        unique.create_item(person("3", "c@x", first="f", last="1"))
    assert ids(unique) == ["1"]


def test_unique_values_hold_through_updates_and_are_freed_by_deletes(unique):
    unique.create_item(person("1", "a@x"))
    unique.create_item(person("2", "b@x"))
    for refused in (
        lambda: unique.replace_item("2", person("2", "a@x")),
        lambda: unique.upsert_item(person("2", "a@x")),
        lambda: unique.patch_item("2", "p", [{"op": "set", "path": "/mail", "value": "a@x"}]),
    ):
        with pytest.raises(exceptions.CosmosResourceExistsError):
            refused()
    unique.replace_item("1", person("1", "a@x"))
    unique.replace_item("1", person("1", "c@x"))
    unique.replace_item("2", person("2", "a@x"))
    unique.delete_item("2", "p")
    unique.create_item(person("3", "a@x"))
    assert ids(unique) == ["1", "3"]


def test_a_missing_value_counts_as_null(unique):
    unique.create_item({"id": "1", "pk": "p", "name": {"first": "a", "last": "a"}})
    with pytest.raises(exceptions.CosmosResourceExistsError):
        unique.create_item({"id": "2", "pk": "p", "name": {"first": "b", "last": "b"}})


def test_a_batch_that_breaks_uniqueness_is_undone(unique):
    unique.create_item(person("1", "a@x"))
    with pytest.raises(exceptions.CosmosBatchOperationError) as refused:
        unique.execute_item_batch(
            [("create", (person("2", "b@x"),)), ("create", (person("3", "a@x"),))], partition_key="p"
        )
    assert refused.value.status_code == 409
    assert ids(unique) == ["1"]
    # The value taken by the undone half is free.
    unique.create_item(person("4", "b@x"))

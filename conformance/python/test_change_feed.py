"""Proves the change feed of latest versions: from the beginning, from now, by key, by range, and going on
from a saved position; every live item once, in the order of its last change."""
import datetime
import time


def feed(container, **options):
    return list(container.query_items_change_feed(**options))


def position_of(container):
    return container.client_connection.last_response_headers["etag"]


def test_from_the_beginning_every_item_comes_once(container):
    for number in range(25):
        container.create_item({"id": str(number), "pk": "p", "n": 0})
    container.replace_item("3", {"id": "3", "pk": "p", "n": 1})
    container.delete_item("4", "p")
    rows = feed(container, start_time="Beginning", max_item_count=4)
    ids = [row["id"] for row in rows]
    assert ids == [str(n) for n in range(25) if n not in (3, 4)] + ["3"]
    assert rows[-1]["n"] == 1
    assert all("_lsn" in row for row in rows)


def test_from_now_only_what_follows_comes(container):
    container.create_item({"id": "before", "pk": "p"})
    assert feed(container, start_time="Now") == []
    position = position_of(container)
    container.create_item({"id": "after", "pk": "p"})
    assert [row["id"] for row in feed(container, continuation=position)] == ["after"]


def test_a_position_is_kept_and_goes_on(container):
    seen = []
    position = None
    for step in range(4):
        container.upsert_item({"id": "a", "pk": "p", "step": step})
        container.upsert_item({"id": str(step), "pk": "q", "step": step})
        options = {"continuation": position} if position else {"start_time": "Beginning"}
        seen.append([(row["id"], row["step"]) for row in feed(container, **options)])
        position = position_of(container)
    assert [sorted(step) for step in seen] == [
        sorted([("a", step), (str(step), step)]) for step in range(4)
    ]
    assert feed(container, continuation=position) == []


def test_feed_of_one_key(container):
    for key in ("one", "two"):
        for number in range(5):
            container.create_item({"id": str(number), "pk": key})
    rows = feed(container, start_time="Beginning", partition_key="two")
    assert [(row["id"], row["pk"]) for row in rows] == [(str(n), "two") for n in range(5)]


def test_feed_by_ranges_covers_everything(make_container):
    container = make_container(offer_throughput=22000)
    for number in range(60):
        container.create_item({"id": str(number), "pk": "k%d" % number})
    seen = []
    for feed_range in container.read_feed_ranges():
        seen += [row["id"] for row in feed(container, start_time="Beginning", feed_range=feed_range)]
    assert sorted(seen, key=int) == [str(number) for number in range(60)]


def test_from_a_point_in_time(container):
    container.create_item({"id": "old", "pk": "p"})
    time.sleep(2.1)
    start = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(1.1)
    container.create_item({"id": "new", "pk": "p"})
    assert [row["id"] for row in feed(container, start_time=start)] == ["new"]


def test_a_batch_appears_whole_in_the_feed(container):
    container.execute_item_batch(
        [("create", ({"id": str(n), "pk": "p"},)) for n in range(10)], partition_key="p"
    )
    pages = container.query_items_change_feed(start_time="Beginning", max_item_count=3).by_page()
    first = list(next(pages))
    assert [row["id"] for row in first] == [str(n) for n in range(10)]
    assert len({row["_lsn"] for row in first}) == 1

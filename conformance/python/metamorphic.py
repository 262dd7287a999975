"""Proves that answers do not depend on how they are asked for; see ../metamorphic/README.md.

`cargo xtask test --only metamorphic` runs this file before and after a restart of the server. The first
run makes the containers and keeps the answers in ARMILLA_ANSWERS for the later ones.
"""
import json
import os

import pytest
from azure.cosmos import PartitionKey

import metamorphic_data as data

ANSWERS = os.environ.get("ARMILLA_ANSWERS", "metamorphic-answers.json")
# The how manieth run this is: before the restart, after it.
RUN = int(os.environ.get("ARMILLA_RUN", "0"))
QUERIES = data.queries()


@pytest.fixture(scope="session")
def answers(client):
    """The kept answers; in the first run they are asked for, from containers made for it."""
    if os.path.exists(ANSWERS):
        with open(ANSWERS, encoding="utf-8") as text:
            return json.load(text)
    load(client)
    kept = {
        kind: [ask(client, kind, query, *data.ways(kind, query, 0)[0]) for query in QUERIES] for kind in data.KINDS
    }
    with open(ANSWERS, "w", encoding="utf-8") as text:
        json.dump(kept, text)
    return kept


def load(client):
    database = client.create_database(data.DATABASE)
    for kind, paths in data.KINDS.items():
        key = PartitionKey(path=paths[0]) if len(paths) == 1 else PartitionKey(path=paths, kind="MultiHash")
        for policy, definition in data.POLICIES.items():
            for ranges, throughput in data.RANGES.items():
                container = database.create_container(
                    data.container_name(kind, policy, ranges),
                    partition_key=key,
                    indexing_policy=definition,
                    offer_throughput=throughput,
                )
                assert len(list(container.read_feed_ranges())) == ranges
                for item in data.items():
                    container.create_item(item)


def ask(client, kind, query, policy, ranges, page):
    name = data.container_name(kind, policy, ranges)
    container = client.get_database_client(data.DATABASE).get_container_client(name)
    where = {"enable_cross_partition_query": True}
    if "key" in query:
        where = {"partition_key": data.partition_key(kind, query["key"])}
    found = container.query_items(
        query["sql"], parameters=query.get("parameters"), max_item_count=page, **where
    )
    rows = []
    for one_page in found.by_page():
        one_page = list(one_page)
        assert len(one_page) <= page
        rows += one_page
    return [user_part(row) for row in rows]


def user_part(row):
    if isinstance(row, dict):
        return {name: value for name, value in row.items() if not name.startswith("_")}
    return row


def canonical(value):
    """A text that is the same for equal values; the last digits of what was divided do not count."""
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (json.dumps(k), canonical(v)) for k, v in sorted(value.items()))
    if isinstance(value, list):
        return "[%s]" % ",".join(canonical(element) for element in value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "%.12g" % value
    return json.dumps(value)


def sorted_rows(rows):
    return sorted(canonical(row) for row in rows)


def by_keys(rows, names):
    """Runs of rows with equal keys: the sequence of keys, each with the multiset of its rows."""
    runs = []
    for row in rows:
        keys = [canonical(row[name]) if name in row else "undefined" for name in names]
        if not runs or runs[-1][0] != keys:
            runs.append((keys, []))
        runs[-1][1].append(canonical(row))
    return [(keys, sorted(run)) for keys, run in runs]


def comparable(query, rows):
    if query.get("size"):
        return len(rows)
    if query.get("order") == "all":
        return [canonical(row) for row in rows]
    if "keys" in query:
        return by_keys(rows, query["keys"])
    return sorted_rows(rows)


@pytest.mark.parametrize("number", range(len(QUERIES)), ids=[query["sql"][:80] for query in QUERIES])
@pytest.mark.parametrize("kind", list(data.KINDS))
def test_the_answer_is_the_same_however_it_is_asked(client, answers, kind, number):
    query = QUERIES[number]
    expected = comparable(query, answers[kind][number])
    for way in data.ways(kind, query, number + RUN):
        found = comparable(query, ask(client, kind, query, *way))
        assert found == expected, "%s over %s items, index %s, %d ranges, pages of %d" % (
            (query["sql"], kind) + way
        )

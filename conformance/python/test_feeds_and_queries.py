"""Proves reading many items: feeds page by page, queries inside one partition and across all, parameters,
order, aggregates, continuation over pages, and refusals of bad SQL. The SQL language itself is tested in
the sql crate; here the way through the SDK counts."""
import pytest
from azure.cosmos import exceptions

COUNT = 120


@pytest.fixture(scope="module")
def filled(database):
    from azure.cosmos import PartitionKey
    from conftest import new_name

    # More than one physical partition, so that every query here also crosses ranges.
    container = database.create_container(
        new_name("filled"), PartitionKey(path="/pk"), offer_throughput=22000
    )
    for number in range(COUNT):
        container.create_item(
            {
                "id": "%03d" % number,
                "pk": "p%d" % (number % 6),
                "number": number,
                "team": "g%d" % (number % 4),
                "tags": ["even" if number % 2 == 0 else "odd", "all"],
                "deep": {"value": number / 2},
            }
        )
    yield container
    database.delete_container(container)


def everything(container, query, **options):
    options.setdefault("enable_cross_partition_query", True)
    return list(container.query_items(query, **options))


def test_feed_pages_show_each_item_once(filled):
    pages = [list(page) for page in filled.read_all_items(max_item_count=7).by_page()]
    assert max(len(page) for page in pages) <= 7
    ids = [item["id"] for page in pages for item in page]
    assert sorted(ids) == ["%03d" % number for number in range(COUNT)]


def test_query_pages_show_each_item_once(filled):
    query = filled.query_items("SELECT c.id FROM c", partition_key="p1", max_item_count=3)
    pages = [list(page) for page in query.by_page()]
    assert [len(page) for page in pages if page] == [3, 3, 3, 3, 3, 3, 2]
    assert len({row["id"] for page in pages for row in page}) == 20


def test_query_goes_on_from_a_continuation(filled):
    options = {"query": "SELECT VALUE c.number FROM c ORDER BY c.number", "partition_key": "p2",
               "max_item_count": 6}
    first = filled.query_items(**options).by_page()
    rows = list(next(first))
    token = first.continuation_token
    assert len(rows) == 6 and token
    rest = filled.query_items(**options).by_page(token)
    rows += [row for page in rest for row in page]
    assert rows == list(range(2, COUNT, 6))


def test_order_inside_one_partition_is_insertion_order(filled):
    rows = everything(filled, "SELECT VALUE c.number FROM c", partition_key="p3")
    assert rows == list(range(3, COUNT, 6))


@pytest.mark.parametrize(
    "query, expected",
    [
        ("SELECT VALUE c.id FROM c WHERE c.number = 17", ["017"]),
        ("SELECT VALUE COUNT(1) FROM c", [COUNT]),
        ("SELECT VALUE SUM(c.number) FROM c", [sum(range(COUNT))]),
        ("SELECT VALUE MIN(c.number) FROM c WHERE c.number > 10", [11]),
        ("SELECT VALUE MAX(c.deep['value']) FROM c", [(COUNT - 1) / 2]),
        ("SELECT VALUE AVG(c.number) FROM c", [(COUNT - 1) / 2]),
        ("SELECT TOP 3 VALUE c.number FROM c ORDER BY c.number DESC", [119, 118, 117]),
        ("SELECT VALUE c.number FROM c ORDER BY c.number OFFSET 5 LIMIT 3", [5, 6, 7]),
        ("SELECT VALUE c.number FROM c WHERE c.number BETWEEN 3 AND 5 ORDER BY c.number", [3, 4, 5]),
        ("SELECT VALUE c.number FROM c WHERE c.number IN (9, 2, 400) ORDER BY c.number", [2, 9]),
        ("SELECT VALUE COUNT(1) FROM c WHERE ARRAY_CONTAINS(c.tags, 'even')", [COUNT // 2]),
        ("SELECT VALUE COUNT(1) FROM c WHERE STARTSWITH(c.id, '00')", [10]),
        ("SELECT VALUE COUNT(1) FROM c WHERE NOT IS_DEFINED(c.missing)", [COUNT]),
        ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.id = '001'", ["odd", "all"]),
        ("SELECT VALUE c.number FROM c WHERE c.number = 1 OR c.number = 3 ORDER BY c.number ASC", [1, 3]),
    ],
    ids=lambda value: value[:48] if isinstance(value, str) else "",
)
def test_queries_across_partitions(filled, query, expected):
    assert everything(filled, query) == expected


def test_ordered_query_merges_partitions_in_small_pages(filled):
    rows = everything(filled, "SELECT VALUE c.number FROM c ORDER BY c.number", max_item_count=10)
    assert rows == list(range(COUNT))


def test_distinct_and_group_by(filled):
    assert sorted(everything(filled, "SELECT DISTINCT VALUE c.team FROM c")) == [
        "g0", "g1", "g2", "g3"
    ]
    groups = everything(filled, "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team")
    assert sorted((row["team"], row["n"]) for row in groups) == [
        ("g%d" % n, COUNT // 4) for n in range(4)
    ]


def test_parameters_of_every_type(filled):
    query = (
        "SELECT VALUE c.id FROM c WHERE c.number >= @low AND c.team = @group "
        "AND ARRAY_CONTAINS(@tags, c.tags[0]) AND @yes = true AND IS_NULL(@nothing) "
        "AND @object.key = 'value' ORDER BY c.id"
    )
    parameters = [
        {"name": "@low", "value": 110},
        {"name": "@group", "value": "g2"},
        {"name": "@tags", "value": ["even"]},
        {"name": "@yes", "value": True},
        {"name": "@nothing", "value": None},
        {"name": "@object", "value": {"key": "value"}},
    ]
    assert everything(filled, query, parameters=parameters) == ["110", "114", "118"]


def test_projection_of_objects_and_arrays(filled):
    rows = everything(
        filled,
        "SELECT c.id, c.number * 2 AS twice, [c.pk, c.team] AS pair, {v: c.deep['value']} AS o, c.none "
        "FROM c WHERE c.id = '005'",
    )
    assert rows == [{"id": "005", "twice": 10, "pair": ["p5", "g1"], "o": {"v": 2.5}}]


def test_metrics_are_answered(filled):
    headers = {}
    query = filled.query_items(
        "SELECT * FROM c WHERE c.number > 3",
        partition_key="p0",
        populate_query_metrics=True,
        populate_index_metrics=True,
        response_hook=lambda received, _: headers.update(received),
    )
    assert len(list(query)) == 19
    assert "totalExecutionTimeInMs" in headers["x-ms-documentdb-query-metrics"]
    assert float(headers["x-ms-request-charge"]) > 0


def test_advice_is_given(filled):
    headers = {}
    query = filled.query_items(
        "SELECT * FROM c WHERE STARTSWITH(c.team, 'G2', true) AND CONTAINS(c.id, '1')",
        partition_key="p0",
        populate_query_advice=True,
        response_hook=lambda received, _: headers.update(received),
    )
    assert len(list(query)) > 0
    # The SDK has made sentences of the numbers.
    advice = headers["x-ms-cosmos-query-advice"]
    assert "QA1003" in advice and "QA1002" in advice


@pytest.mark.parametrize(
    "query",
    ["SELECT", "SELECT * FROM", "SELEC * FROM c", "SELECT * FROM c WHERE", "SELECT c.a c.b FROM c",
     "SELECT NOSUCHFUNCTION(1) FROM c", "SELECT * FROM c WHERE c.x = 'open", "SELECT @missing FROM c",
     "SELECT * FROM c ORDER BY", ""],
    ids=repr,
)
def test_bad_sql_is_refused(filled, query):
    with pytest.raises(Exception) as refused:
        everything(filled, query, partition_key="p0")
    assert getattr(refused.value, "status_code", 400) == 400
    assert len(everything(filled, "SELECT * FROM c", partition_key="p0")) == 20


def test_foreign_continuation_is_refused(filled):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        query = filled.query_items("SELECT * FROM c", partition_key="p0", max_item_count=2)
        list(next(query.by_page("no token of ours")))
    assert refused.value.status_code == 400

"""Proves that the examples of the service's modelling articles behave as they say: those printed with mistakes are refused
with line and column, repaired they load, and the queries over them tell references, types and absence apart."""
import json
import pathlib

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

from raw import Raw

EXAMPLES = json.loads((pathlib.Path(__file__).parent / "modelling.json").read_text("utf-8"))

# Each as it is printed, with the line and column where it stops being JSON.
BROKEN = {
    "a name without its closing quote": ('{\n  "id": "1",\n  "contactDetails": [\n    {"email: "thomas@andersen.com"}\n  ]\n}', 4, 15),
    "an infinite number": ('{\n  "id": "1",\n  "comments": [\n    {"id": \u221e + 1, "author": "bored"}\n  ]\n}', 4, 12),
    "dots for the rest": ('{\n  "id": "1",\n  "comments": [\n    {"id": 2},\n    ...\n  ]\n}', 5, 5),
    "a comma before the end": ('{\n  "id": "b2",\n  "authors": [\n    {"id": "a1"},\n  ]\n}', 5, 3),
    "a missing comma between members": ('{\n  "id": "1",\n  "postId": "1"\n  "comments": []\n}', 4, 3),
    "a missing comma between elements": ('{\n  "id": "a1",\n  "images": [\n    {"thumbnail": "t"}\n    {"profile": "p"}\n  ]\n}', 5, 5),
    "a count that is only named": ('{\n  "id": "<post-id>",\n  "commentCount": <count-of-comments>\n}', 3, 19),
    "a string without its closing quote": ('{"id": "a1", "books": ["b1, "b2", "b3"]}', 1, 30),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_examples_are_refused_with_line_and_column(endpoint, key, make_container, database, name):
    container = make_container("/id")
    text, line, column = BROKEN[name]
    path = "/dbs/%s/colls/%s/docs" % (database.id, container.id)
    answer = Raw(endpoint, key).send(
        "POST", path, text.encode(), {"x-ms-documentdb-partitionkey": '["1"]'})
    assert answer.status == 400, answer.body
    assert "line %d column %d" % (line, column) in answer.message, answer.message
    assert list(container.read_all_items()) == []


def load(make_container, name, path="/id"):
    container = make_container(path)
    for item in EXAMPLES[name]:
        made = container.create_item(item)
        assert {key: made[key] for key in item} == item
    return container


def ask(container, query, **parameters):
    given = [{"name": "@" + name, "value": value} for name, value in parameters.items()]
    return list(container.query_items(query, parameters=given, enable_cross_partition_query=True))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_loads_and_comes_back(make_container, name):
    container = load(make_container, name)
    found = {item["id"]: item for item in container.read_all_items()}
    assert set(found) == {item["id"] for item in EXAMPLES[name]}


def test_embedded_parts_are_found_inside_their_item(make_container):
    people = load(make_container, "person")
    assert ask(people, "SELECT VALUE p.lastName FROM p JOIN a IN p.addresses WHERE a.city = 'Seattle'") == ["Andersen"]
    assert ask(people, "SELECT VALUE d.extension FROM p JOIN d IN p.contactDetails WHERE IS_DEFINED(d.phone)") == [5555]
    portfolio = load(make_container, "portfolio_embedded")
    assert ask(portfolio, "SELECT VALUE h.stock.high FROM p JOIN h IN p.holdings WHERE h.stock.symbol = 'xcxc'") == [93.24]


def test_batches_keep_the_newest_apart_from_the_rest(make_container):
    posts = load(make_container, "post_with_batches", "/postId")
    assert ask(posts, "SELECT VALUE ARRAY_LENGTH(p.recentComments) FROM p WHERE p.id = '1'") == [3]
    authors = ask(posts, "SELECT VALUE c.author FROM p JOIN c IN p.comments WHERE p.postId = '1' AND c.id >= 99")
    assert sorted(authors) == ["angry", "anon", "bored"]
    unbounded = load(make_container, "post_with_comments")
    assert ask(unbounded, "SELECT VALUE MAX(c.id) FROM p JOIN c IN p.comments") == [1000000001]


def test_numbers_and_strings_never_match(make_container):
    portfolio = load(make_container, "portfolio_referenced")
    held = ask(portfolio, "SELECT VALUE h.stockId FROM p JOIN h IN p.holdings")
    assert held == [1, 2]
    assert ask(portfolio, "SELECT * FROM s WHERE s.id = @id", id=held[0]) == []
    assert ask(portfolio, "SELECT VALUE s.symbol FROM s WHERE s.id = @id", id=str(held[0])) == ["zaza"]
    publisher = load(make_container, "publisher_with_books")
    assert ask(publisher, "SELECT VALUE ARRAY_CONTAINS(p.books, '1') FROM p WHERE p.id = 'mspress'") == [False]
    assert ask(publisher, "SELECT VALUE ARRAY_CONTAINS(p.books, 1) FROM p WHERE p.id = 'mspress'") == [True]


def test_hyphens_need_brackets_and_absence_is_not_null(make_container):
    books = load(make_container, "books_with_publisher")
    found = ask(books, "SELECT VALUE b.id FROM b WHERE b['pub-id'] = 'mspress'")
    assert sorted(found) == ["1", "100", "1000", "2"]
    # Without brackets it is a subtraction of two things that are not there.
    with pytest.raises(CosmosHttpResponseError):
        ask(books, "SELECT VALUE b.id FROM b WHERE b.pub-id = 'mspress'")
    without = ask(books, "SELECT VALUE b.id FROM b WHERE NOT IS_DEFINED(b['pub-id'])")
    assert sorted(without) == ["3", "mspress"]
    assert ask(books, "SELECT VALUE b.id FROM b WHERE b['pub-id'] = null") == []
    stocks = load(make_container, "portfolio_referenced")
    assert ask(stocks, "SELECT VALUE s.id FROM s WHERE s['mkt-cap'] > 2000000") == ["1"]


def test_many_to_many_three_ways(make_container):
    joining = load(make_container, "joining")
    assert ask(joining, "SELECT VALUE j.bookId FROM j WHERE j.authorId = 'a1' ORDER BY j.bookId") == ["b1", "b2", "b3"]
    arrays = load(make_container, "id_arrays")
    assert ask(arrays, "SELECT VALUE b.id FROM b WHERE ARRAY_CONTAINS(b.authors, 'a2') ORDER BY b.id") == ["b1", "b4"]
    hybrid = load(make_container, "hybrid")
    assert ask(hybrid, "SELECT VALUE a.countOfBooks FROM a WHERE a.id = 'a1'") == [3]
    names = ask(hybrid, "SELECT VALUE a.name FROM b JOIN a IN b.authors WHERE b.id = 'b1'")
    assert sorted(names) == ["Thomas Andersen", "William Wakefield"]


def test_references_are_weak(make_container):
    books = load(make_container, "id_arrays")
    books.create_item({"id": "b9", "name": "By nobody", "authors": ["a9"]})
    assert ask(books, "SELECT VALUE b.id FROM b WHERE ARRAY_CONTAINS(b.authors, 'a9')") == ["b9"]


def test_types_share_a_partition(make_container):
    books = load(make_container, "books_and_reviews", "/bookId")
    reviews = books.query_items("SELECT VALUE r.id FROM r WHERE r.type = 'review'", partition_key="b1")
    assert sorted(reviews) == ["r1", "r2"]


def test_the_blog_reads_less_with_every_version(make_container):
    of_post = "SELECT VALUE c.id FROM c WHERE c.postId = '<post-id>' AND c.type = 'comment'"
    first = load(make_container, "blog_v1", "/postId")
    assert ask(first, of_post) == ["<comment-id>"]
    assert ask(first, "SELECT VALUE u.username FROM u WHERE NOT IS_DEFINED(u.type)") == ["<username>"]
    second = load(make_container, "blog_v2", "/postId")
    assert ask(second, of_post) == ["<comment-id>"]
    counts = ask(second, "SELECT p.userUsername, p.commentCount, p.likeCount FROM p WHERE p.type = 'post'")
    assert counts == [{"userUsername": "<post-author-username>", "commentCount": 1, "likeCount": 1}]
    third = load(make_container, "blog_v3", "/userId")
    of_user = third.query_items(
        "SELECT VALUE p.title FROM p WHERE p.userId = '<user-id>' AND p.type = 'post'", partition_key="<user-id>")
    assert list(of_user) == ["<post-title>"]


def test_relational_joins_are_refused_in_words(make_container):
    people = load(make_container, "person")
    with pytest.raises(CosmosHttpResponseError) as refused:
        ask(people, "SELECT p.firstName, a.city FROM person p JOIN address a ON a.personId = p.id")
    assert refused.value.status_code == 400

"""Proves that nothing a client sends takes the server down or makes it lie: broken JSON, broken HTTP, broken
authentication, half requests. After every test an ordinary write and read must work."""
import socket
import time

import pytest

from conftest import new_name
from raw import Raw, receive, status_of

KEY = "x-ms-documentdb-partitionkey"


@pytest.fixture(scope="module")
def raw(endpoint, key):
    return Raw(endpoint, key)


@pytest.fixture(scope="module")
def docs(raw):
    """The path of a fresh container's items."""
    name = new_name("bad")
    assert raw.send("POST", "/dbs", {"id": name}).status == 201
    key = {"paths": ["/pk"], "kind": "Hash", "version": 2}
    created = raw.send("POST", "/dbs/%s/colls" % name, {"id": "c", "partitionKey": key})
    assert created.status == 201, created.body
    yield "/dbs/%s/colls/c/docs" % name
    assert raw.send("DELETE", "/dbs/" + name).status == 204


@pytest.fixture(autouse=True)
def server_still_serves(raw, docs):
    yield
    item_id = new_name("alive")
    created = raw.send("POST", docs, {"id": item_id, "pk": "p"}, {KEY: '["p"]'})
    assert created.status == 201, created.body
    read = raw.send("GET", docs + "/" + item_id, headers={KEY: '["p"]'})
    assert read.status == 200 and read.json()["id"] == item_id


def post(raw, docs, body, **options):
    return raw.send("POST", docs, body, {KEY: '["p"]'}, **options)


def is_error(answer, status):
    assert answer.status == status, answer.body[:500]
    error = answer.json()
    assert error["code"] and error["message"]
    assert answer.headers["x-ms-activity-id"]
    return error["message"]


# Bodies.


@pytest.mark.parametrize(
    "body, line, column",
    [
        (b'{"id": "a", "pk": "p",}', 1, None),
        (b'{"id": "a",\n "pk": oops}', 2, 8),
        (b'{"id": "a",\n\n  "pk" "p"}', 3, 8),
        (b'{"id": "a", "pk": "p"', 1, None),
        (b'{"id": "a", "pk": "p"} {}', 1, None),
        (b"{'id': 'a'}", 1, 2),
        (b'{"id": "a", "pk": "p", "n": 01}', 1, None),
        (b'{"id": "a", "pk": "p", "n": +1}', 1, None),
        (b'{"id": "a", "pk": "p", "n": NaN}', 1, None),
        (b'{"id": "a", "pk": "p", "t": "\x01"}', 1, None),
        (b'{"id": "a", "pk": "p", "t": "\\x"}', 1, None),
        (b'{"id": "a", "pk": "p", "t": "\\ud800"}', 1, None),
    ],
    ids=["comma", "word", "colon", "open", "tail", "quotes", "zero", "plus", "nan", "control",
         "escape", "surrogate"],
)
def test_malformed_json_is_located(raw, docs, body, line, column):
    message = is_error(post(raw, docs, body), 400).lower()
    assert "line %d" % line in message, message
    assert "column" in message, message
    if column:
        assert "column %d" % column in message, message


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'"text"', b"7", b"\xef\xbb\xbf{}", b"\x00", b"\x81\x00\x01"],
    ids=["nothing", "null", "array", "text", "number", "bom", "zero-byte", "hybrid-row"],
)
def test_what_is_no_object_is_refused(raw, docs, body):
    is_error(post(raw, docs, body), 400)


def test_deep_json_is_refused(raw, docs):
    def nested(levels):
        return b'{"id": "deep", "pk": "p", "a": ' + b"[" * levels + b"]" * levels + b"}"

    assert post(raw, docs, nested(100)).status == 201
    is_error(post(raw, docs, nested(200)), 400)
    is_error(post(raw, docs, nested(200_000)), 400)
    is_error(post(raw, docs, b'{"a":' * 100_000), 400)


def test_of_repeated_names_the_last_counts_but_an_item_has_one_id(raw, docs):
    made = post(raw, docs, b'{"id": "a", "pk": "p", "n": 1, "n": 2, "o": {"x": 1, "\\u0078": 2}}')
    assert made.status == 201 and b'"n":2,"o":{"x":2},' in made.body, made.body
    is_error(post(raw, docs, b'{"id": "b", "pk": "p", "id": "c"}'), 400)


def test_invalid_utf8_is_refused(raw, docs):
    for broken in (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f\x92", b"\xc0\xaf"):
        is_error(post(raw, docs, b'{"id": "a", "pk": "p", "t": "' + broken + b'"}'), 400)


def test_numbers_beyond_a_double_are_refused(raw, docs):
    is_error(post(raw, docs, b'{"id": "a", "pk": "p", "n": 1e999}'), 400)
    is_error(post(raw, docs, b'{"id": "a", "pk": "p", "n": ' + b"9" * 400 + b"}"), 400)


def test_oversized_bodies_are_refused(raw, docs):
    body = b'{"id": "big", "pk": "p", "t": "' + b"x" * (3 * 1024 * 1024) + b'"}'
    is_error(post(raw, docs, body), 413)


def test_a_body_that_claims_a_terabyte_is_refused_without_waiting(raw, docs):
    started = time.monotonic()
    with raw.socket() as connection:
        head = raw.head("POST", docs, content_length=str(10**12), **{KEY: '["p"]'})
        connection.sendall(head + b'{"id": "a"')
        assert status_of(receive(connection)) in (400, 413)
    assert time.monotonic() - started < 15


# Routes and methods.


@pytest.mark.parametrize(
    "path", ["/nowhere", "/dbs/d/nowhere", "/dbs/d/colls/c/nowhere/x", "/a/b/c/d/e/f/g", "/%2e%2e/x"]
)
def test_unknown_routes_are_not_found(raw, path):
    is_error(raw.send("GET", path), 404)


@pytest.mark.parametrize(
    "verb, path",
    [("PUT", "/dbs"), ("DELETE", "/dbs"), ("PATCH", "/dbs/d"), ("DELETE", "/dbs/d/colls/c/docs"),
     ("POST", "/dbs/d/colls/c/docs/x"), ("PUT", "/dbs/d/colls/c/pkranges")],
    ids=lambda value: value,
)
def test_wrong_methods_are_named(raw, verb, path):
    is_error(raw.send(verb, path, b"{}" if verb != "DELETE" else None), 405)


def test_missing_resources_are_not_found(raw, docs):
    missing = "/dbs/" + new_name("missing")
    is_error(raw.send("GET", missing), 404)
    is_error(raw.send("GET", missing + "/colls/c"), 404)
    is_error(raw.send("GET", missing + "/colls/c/docs/a", headers={KEY: '["p"]'}), 404)
    is_error(raw.send("GET", docs + "/missing", headers={KEY: '["p"]'}), 404)


def test_slashes_do_not_matter(raw, docs):
    database = "/".join(docs.split("/")[:3])
    for path in (database, database + "/", "/" + database):
        assert raw.send("GET", path).status == 200


# Headers.


@pytest.mark.parametrize(
    "value", ["p", '["p"', "{}", "7", '["p","q"]', '[["p"]]', '[1e999]', '["\\ud800"]', "[" * 5000],
    ids=lambda value: value[:12],
)
def test_broken_partition_keys_are_refused(raw, docs, value):
    answer = raw.send("GET", docs + "/a", headers={KEY: value})
    is_error(answer, 400)


def test_missing_partition_key_is_refused(raw, docs):
    is_error(raw.send("GET", docs + "/a"), 400)


def test_key_that_differs_from_the_body_is_refused(raw, docs):
    answer = raw.send("POST", docs, {"id": "a", "pk": "p"}, {KEY: '["q"]'})
    is_error(answer, 400)
    assert answer.headers["x-ms-substatus"] == "1001"


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ms-max-item-count": "many"},
        {"x-ms-max-item-count": "-7"},
        {"x-ms-continuation": "nonsense"},
        {"x-ms-session-token": "nonsense"},
        {"x-ms-consistency-level": "Hopeful"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_broken_headers_are_refused(raw, docs, headers):
    is_error(raw.send("GET", docs, headers={KEY: '["p"]', **headers}), 400)


def test_unknown_range_is_gone(raw, docs):
    query = {"query": "SELECT * FROM c"}
    headers = {
        "x-ms-documentdb-isquery": "True",
        "content-type": "application/query+json",
        "x-ms-documentdb-partitionkeyrangeid": "4711",
    }
    answer = raw.send("POST", docs, query, headers)
    is_error(answer, 410)
    assert answer.headers["x-ms-substatus"] == "1002"


# Authentication.


def test_no_authorization_is_refused(raw, docs):
    is_error(raw.send("GET", docs, sign=False), 401)


@pytest.mark.parametrize(
    "token",
    ["", "nonsense", "type%3Dmaster", "type%3Dmaster%26ver%3D1.0%26sig%3D", "%zz", "x" * 6000,
     "type%3Dmaster%26ver%3D9.9%26sig%3Dabc", "type%3Dresource%26ver%3D1.0%26sig%3Dabc%3B%3B",
     "type%3Daad%26ver%3D1.0%26sig%3Dnot.a.token"],
    ids=lambda token: token[:24],
)
def test_nonsense_authorization_is_refused(raw, docs, token):
    answer = raw.send("GET", docs, headers={"authorization": token, KEY: '["p"]'})
    assert answer.status in (401, 403), answer.body


def test_signature_for_another_request_is_refused(raw, docs):
    stolen = raw.signed("GET", docs)["authorization"]
    message = is_error(raw.send("POST", docs, {"id": "a", "pk": "p"},
                                {"authorization": stolen, KEY: '["p"]'}), 401)
    # The most useful help: what should have been signed.
    assert "post" in message and "docs" in message


def test_an_old_or_a_future_date_is_refused(raw, docs):
    for age in (3600, -3600):
        is_error(raw.send("GET", docs, headers={KEY: '["p"]'}, age=age), 403)
    assert raw.send("GET", docs, headers={KEY: '["p"]'}, age=300).status == 200


def test_missing_and_broken_dates_are_refused(raw, docs):
    signed = raw.signed("GET", docs)["authorization"]
    without = raw.send("GET", docs, headers={"authorization": signed}, sign=False)
    is_error(without, 401)
    broken = raw.send("GET", docs, headers={"x-ms-date": "yesterday at noon"})
    assert broken.status in (400, 401, 403)


# The transport.


def test_half_a_body_does_nothing(raw, docs):
    item_id = new_name("half")
    body = b'{"id": "%s", "pk": "p"}' % item_id.encode()
    with raw.socket() as connection:
        head = raw.head("POST", docs, content_length=str(len(body)), **{KEY: '["p"]'})
        connection.sendall(head + body[:10])
        if not raw.tls:
            connection.shutdown(socket.SHUT_RDWR)
    time.sleep(0.2)
    is_error(raw.send("GET", docs + "/" + item_id, headers={KEY: '["p"]'}), 404)


def test_half_a_head_does_nothing(raw, docs):
    with raw.socket() as connection:
        connection.sendall(raw.head("GET", docs)[:40])


def test_many_idle_connections_do_not_keep_others_out(raw, docs):
    idle = [raw.socket() for _ in range(100)]
    try:
        for connection in idle:
            connection.sendall(b"GET / HT")
        assert raw.send("GET", "/").status == 200
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize(
    "data",
    [b"\r\n\r\n\r\n", b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
     b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"\x00" * 64, b"\xff" * 64,
     b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: minus one\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100],
    ids=["lines", "word", "verb", "version", "header", "zeros", "ones", "length", "chunk", "http2"],
)
def test_what_is_no_http_is_answered_or_dropped(raw, data):
    with raw.socket() as connection:
        connection.settimeout(3)
        try:
            connection.sendall(data)
            connection.recv(65536)
        except (TimeoutError, ConnectionError, OSError):
            pass


def test_a_huge_head_is_refused(raw, docs):
    with raw.socket() as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            for number in range(400):
                connection.sendall(b"X-%d: " % number + b"y" * 4000 + b"\r\n")
            connection.sendall(b"\r\n")
            received = receive(connection)
        except (ConnectionError, OSError):
            received = b""
        assert status_of(received) in (None, 400, 401, 431)


def test_plain_and_tls_share_the_port(raw):
    other = Raw("%s://%s:%d/" % ("http" if raw.tls else "https", raw.host, raw.port), "")
    other.key = raw.key
    assert other.send("GET", "/").status == 200


def test_chunked_bodies_are_read(raw, docs):
    item_id = new_name("chunked")
    body = b'{"id": "%s", "pk": "p"}' % item_id.encode()
    answer = raw.send("POST", docs, iter([body[:7], body[7:]]),
                      {KEY: '["p"]', "transfer-encoding": "chunked"}, chunked=True)
    assert answer.status == 201, answer.body


def test_requests_follow_each_other_on_one_connection(raw, docs):
    with raw.socket() as connection:
        for _ in range(20):
            connection.sendall(raw.head("GET", docs + "/missing", **{KEY: '["p"]'}))
            received = receive(connection, lambda data: data.endswith(b"}"))
            assert status_of(received) == 404
        # And without waiting for answers in between.
        connection.sendall(raw.head("GET", docs + "/missing", **{KEY: '["p"]'}) * 5)
        received = receive(connection, lambda data: data.count(b"HTTP/1.1 404") == 5)
        assert received.count(b"HTTP/1.1 404") == 5


def test_answers_without_body_have_none(raw, docs):
    item_id = new_name("none")
    created = post(raw, docs, {"id": item_id, "pk": "p"})
    path = docs + "/" + item_id
    same = raw.send("GET", path, headers={KEY: '["p"]', "if-none-match": created.headers["etag"]})
    assert (same.status, same.body) == (304, b"")
    deleted = raw.send("DELETE", path, headers={KEY: '["p"]'})
    assert (deleted.status, deleted.body) == (204, b"")


# Queries and batches.


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b'{"query": 7}', b'{"query": "SELECT * FROM c", "parameters": 7}',
     b'{"query": "SELECT * FROM c", "parameters": [{"value": 1}]}',
     b'{"query": "' + b"(" * 50_000 + b'"}', b'{"query": "SELECT ' + b"-" * 100_000 + b'1"}',
     b'{"query": "SELECT * FROM c WHERE ' + b"NOT " * 50_000 + b'true"}',
     b'{"query": "SELECT ' + b"[" * 50_000 + b'"}',
     b'{"query": "' + b"x" * 600_000 + b'"}'],
    ids=["empty", "no-query", "number", "parameters", "nameless", "parentheses", "minus", "not",
         "brackets", "long"],
)
def test_broken_queries_are_refused(raw, docs, body):
    headers = {KEY: '["p"]', "x-ms-documentdb-isquery": "True",
               "content-type": "application/query+json"}
    is_error(raw.send("POST", docs, body, headers), 400)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[7]", b'[{"operationType": "Explode"}]', b'[{"operationType": "Read"}]',
     b'[{"operationType": "Create"}]', b"\x81\x00\x00", b"[" * 10_000],
    ids=["empty", "object", "number", "unknown", "no-id", "no-body", "hybrid-row", "deep"],
)
def test_broken_batches_are_refused(raw, docs, body):
    headers = {KEY: '["p"]', "x-ms-cosmos-is-batch-request": "True",
               "x-ms-cosmos-batch-atomic": "True"}
    answer = raw.send("POST", docs, body, headers)
    assert answer.status in (400, 207), answer.body[:300]

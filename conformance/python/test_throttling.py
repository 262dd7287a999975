"""Proves that a throttled container serves its throughput and no more, that bursts are spent as they are
configured, and that what is refused is not written, while what is tried again is written once.

No machine is too slow for these tests: what is served at least is only asked where enough was asked for.
"""
import time

import pytest
import urllib3
from azure.cosmos import CosmosClient, PartitionKey, exceptions

from conftest import new_name

SECONDS = 10
UNITS = 1000
# Dear writes, so that a slow machine too can ask for more than is served.
FILLER = "x" * 200_000
# Seconds that are banked before a burst, and what a partition spends in a second of it.
BANKED = 4
BURST_UNITS = 3000


@pytest.fixture
def turn(endpoint):
    """A function that turns dials of a container."""
    pool = urllib3.PoolManager(cert_reqs="CERT_NONE")

    def turn(database, container, dials):
        url = "%s/_armilla/dials/dbs/%s/colls/%s" % (endpoint.rstrip("/"), database, container)
        assert pool.request("PUT", url, body=dials).status == 200

    return turn


@pytest.fixture
def throttled(client, endpoint, key, turn):
    """A container of 1,000 units a second, seen by a client that does not try again by itself."""
    with CosmosClient(endpoint, key, connection_verify=False) as impatient:
        # The SDK takes a total of 0 for no total at all.
        impatient.client_connection.connection_policy.RetryOptions._max_retry_attempt_count = 0
        database = impatient.create_database(new_name("throttled"))
        container = database.create_container(
            "c",
            PartitionKey(path="/pk"),
            offer_throughput=UNITS,
            indexing_policy={"indexingMode": "none", "automatic": False},
        )
        turn(database.id, "c", b'{"throttle":"on"}')
        yield container
        turn(database.id, "c", b'{"throttle":"off"}')
        impatient.delete_database(database)


class Writer:
    """Writes items and remembers what became of each."""

    def __init__(self, container):
        self.container = container
        self.charges = {}

    def write(self):
        """The charge of a write, or nothing and how long to wait."""
        headers, number = {}, len(self.charges)
        try:
            self.container.create_item(
                {"id": str(number), "pk": "a", "f": FILLER},
                response_hook=lambda answer, _: headers.update(answer),
            )
        except exceptions.CosmosHttpResponseError as error:
            assert (error.status_code, error.sub_status) == (429, 3200)
            self.charges[number] = None
            return None, int(error.headers["x-ms-retry-after-ms"]) / 1000
        self.charges[number] = float(headers["x-ms-request-charge"])
        return self.charges[number], 0

    def write_until_refused(self):
        """To the first refusal, which tells where a second begins; what was spent, and the wait."""
        spent = 0.0
        for _ in range(1000):
            charge, wait = self.write()
            if charge is None:
                return spent, wait
            spent += charge
        raise AssertionError("nothing is refused")

    def check(self):
        """What was refused is not there, everything else is."""
        stored = {int(id) for id in self.container.query_items("SELECT VALUE c.id FROM c", partition_key="a")}
        assert stored == {number for number, charge in self.charges.items() if charge is not None}


def test_a_thousand_units_a_second(throttled, turn):
    writer = Writer(throttled)
    refused_in, spent = set(), 0.0
    _, wait = writer.write_until_refused()
    time.sleep(wait)
    begun = time.monotonic()
    while (now := time.monotonic() - begun) < SECONDS - 0.05:
        charge, wait = writer.write()
        if charge is None:
            refused_in.add(int(now))
            time.sleep(min(wait, 0.02))
        else:
            spent += charge
    # Never more than the throughput; as much as that wherever more was asked for.
    assert spent <= UNITS * SECONDS * 1.05
    if len(refused_in) >= SECONDS - 1:
        assert spent >= UNITS * SECONDS * 0.95
    turn(throttled.container_link.split("/")[1], "c", b'{"throttle":"off"}')
    writer.check()


def test_a_burst_spends_what_was_banked(throttled, turn):
    database = throttled.container_link.split("/")[1]
    turn(database, "c", b'{"burst":"on"}')
    writer = Writer(throttled)
    # Whatever the first second had and the debt behind it are used up.
    _, wait = writer.write_until_refused()
    time.sleep(wait + BANKED)
    begun = time.monotonic()
    spent, refused_after = 0.0, None
    while refused_after is None:
        charge, _ = writer.write()
        now = time.monotonic() - begun
        if charge is None:
            refused_after = now
        else:
            spent += charge
        assert len(writer.charges) < 2000, "nothing is refused"
    # The bank, the seconds since, and one write that overdraws.
    most = UNITS * (BANKED + 1 + refused_after + 1) + max(filter(None, writer.charges.values()))
    assert spent <= most
    # Refused within the second of the burst: it was spent at the burst's rate, which is three times the rate.
    if refused_after < 0.5:
        assert spent >= BURST_UNITS * 0.95
    turn(database, "c", b'{"throttle":"off"}')
    writer.check()


def test_the_sdk_tries_again_and_writes_once(client, turn):
    """With the SDK's own retries nobody sees a refusal, and nothing is written twice."""
    refusals = []

    def count(response):
        if response.http_response.status_code == 429:
            refusals.append(response.http_response.headers["x-ms-retry-after-ms"])

    database = client.create_database(new_name("patient"))
    try:
        container = database.create_container("c", PartitionKey(path="/pk"), offer_throughput=400)
        container.create_item({"id": "counter", "pk": "a", "count": 0})
        turn(database.id, "c", b'{"throttle":"on"}')
        for number in range(16):
            operations = [
                ("create", ({"id": str(number), "pk": "a", "f": FILLER},)),
                ("patch", ("counter", [{"op": "incr", "path": "/count", "value": 1}])),
            ]
            container.execute_item_batch(operations, partition_key="a", raw_response_hook=count)
        turn(database.id, "c", b'{"throttle":"off"}')
        assert refusals, "sixteen writes of a hundred units each fit into no second of four hundred"
        assert all(int(wait) >= 1 for wait in refusals)
        assert container.read_item("counter", "a")["count"] == 16
        ids = list(container.query_items("SELECT VALUE c.id FROM c", partition_key="a"))
        assert sorted(ids) == sorted([str(number) for number in range(16)] + ["counter"])
    finally:
        client.delete_database(database)

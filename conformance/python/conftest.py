"""Fixtures of the Python SDK tests: one client, one database for the run, a fresh container on request.

The server is named by ARMILLA_ENDPOINT (default http://localhost:8081/) and ARMILLA_KEY (default: the
published key of local emulators). Tests make their own database and remove it, and touch nothing else.
"""
import os
import uuid

import pytest
import urllib3
from azure.cosmos import CosmosClient, PartitionKey

WELL_KNOWN_KEY = (
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


def new_name(prefix):
    return "%s-%s" % (prefix, uuid.uuid4().hex[:12])


@pytest.fixture(scope="session")
def endpoint():
    return os.environ.get("ARMILLA_ENDPOINT", "http://localhost:8081/")


@pytest.fixture(scope="session")
def key():
    return os.environ.get("ARMILLA_KEY", WELL_KNOWN_KEY)


@pytest.fixture(scope="session")
def client(endpoint, key):
    # A test server's certificate is its own, so it is not checked.
    with CosmosClient(endpoint, key, connection_verify=False) as client:
        yield client


@pytest.fixture(scope="session")
def database(client):
    database = client.create_database(new_name("python"))
    yield database
    client.delete_database(database)


@pytest.fixture
def make_container(database):
    """A function that creates containers and removes them after the test."""
    made = []

    def make(path="/pk", **options):
        key = path if isinstance(path, PartitionKey) else PartitionKey(path=path)
        container = database.create_container(new_name("c"), partition_key=key, **options)
        made.append(container)
        return container

    yield make
    for container in made:
        database.delete_container(container)


@pytest.fixture
def container(make_container):
    return make_container()


@pytest.fixture(scope="session")
def is_https(endpoint):
    return endpoint.startswith("https:")

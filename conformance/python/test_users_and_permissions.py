"""Proves users, permissions and resource tokens: what a token allows and, above all, what it does not."""
import pytest
from azure.cosmos import CosmosClient, exceptions

from conftest import new_name


@pytest.fixture
def user(database):
    user = database.create_user({"id": new_name("user")})
    yield user
    database.delete_user(user)


def test_users_live_and_die(database):
    name = new_name("mary")
    user = database.create_user({"id": name})
    assert user.read()["id"] == name
    assert name in [entry["id"] for entry in database.list_users()]
    with pytest.raises(exceptions.CosmosResourceExistsError):
        database.create_user({"id": name})
    renamed = database.replace_user(name, {"id": name + "-2"})
    assert renamed.read()["id"] == name + "-2"
    upserted = database.upsert_user({"id": name + "-2"})
    assert upserted.id == name + "-2"
    database.delete_user(name + "-2")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        renamed.read()


def test_permissions_live_and_die(user, container):
    link = container.container_link
    permission = user.create_permission({"id": "p", "permissionMode": "Read", "resource": link})
    assert permission.permission_mode == "Read"
    assert permission.properties["_token"].startswith("type=resource&ver=1.0&sig=")
    assert [entry["id"] for entry in user.list_permissions()] == ["p"]
    changed = user.replace_permission(
        "p", {"id": "p", "permissionMode": "All", "resource": link}
    )
    assert changed.permission_mode == "All"
    with pytest.raises(exceptions.CosmosResourceExistsError):
        user.create_permission({"id": "other", "permissionMode": "All", "resource": link})
    user.delete_permission("p")
    with pytest.raises(exceptions.CosmosResourceNotFoundError):
        user.get_permission("p")


def with_token(endpoint, database, container, permission):
    # The SDK looks tokens up by resource link.
    tokens = {container.container_link: permission.properties["_token"]}
    client = CosmosClient(endpoint, tokens, connection_verify=False)
    return client.get_database_client(database.id).get_container_client(container.id)


def forbidden(action):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        action()
    assert refused.value.status_code in (401, 403), refused.value
    return refused.value.status_code


def test_read_token_reads_and_nothing_else(endpoint, database, container, user):
    container.create_item({"id": "a", "pk": "p"})
    permission = user.create_permission(
        {"id": "r", "permissionMode": "Read", "resource": container.container_link}
    )
    guest = with_token(endpoint, database, container, permission)
    assert guest.read_item("a", "p")["id"] == "a"
    assert len(list(guest.query_items("SELECT * FROM c", partition_key="p"))) == 1
    assert forbidden(lambda: guest.create_item({"id": "b", "pk": "p"})) == 403
    assert forbidden(lambda: guest.delete_item("a", "p")) == 403
    assert forbidden(lambda: guest.upsert_item({"id": "a", "pk": "p", "n": 1})) == 403
    assert container.read_item("a", "p")["id"] == "a"


def test_all_token_writes_in_its_container_only(endpoint, database, make_container, user):
    mine, other = make_container(), make_container()
    other.create_item({"id": "secret", "pk": "p"})
    permission = user.create_permission(
        {"id": "w", "permissionMode": "All", "resource": mine.container_link}
    )
    guest = with_token(endpoint, database, mine, permission)
    guest.create_item({"id": "a", "pk": "p"})
    assert mine.read_item("a", "p")["id"] == "a"
    # The same token, aimed elsewhere.
    stolen = CosmosClient(
        endpoint, {other.container_link: permission.properties["_token"]}, connection_verify=False
    ).get_database_client(database.id).get_container_client(other.id)
    forbidden(lambda: stolen.read_item("secret", "p"))


def test_token_of_one_partition_key_sees_that_key_only(endpoint, database, container, user):
    container.create_item({"id": "a", "pk": "mine"})
    container.create_item({"id": "a", "pk": "yours"})
    permission = user.create_permission(
        {
            "id": "k",
            "permissionMode": "All",
            "resource": container.container_link,
            "resourcePartitionKey": ["mine"],
        }
    )
    guest = with_token(endpoint, database, container, permission)
    assert guest.read_item("a", "mine")["pk"] == "mine"
    guest.create_item({"id": "b", "pk": "mine"})
    assert forbidden(lambda: guest.read_item("a", "yours")) == 403
    assert forbidden(lambda: guest.create_item({"id": "b", "pk": "yours"})) == 403


def test_forged_token_is_refused(endpoint, database, container, user):
    container.create_item({"id": "a", "pk": "p"})
    permission = user.create_permission(
        {"id": "f", "permissionMode": "Read", "resource": container.container_link}
    )
    token = permission.properties["_token"]
    middle = len(token) // 2
    other = "A" if token[middle] != "A" else "B"
    forged = token[:middle] + other + token[middle + 1:]

    def read():
        # The SDK reads the account with the same token, so the refusal may come at once.
        client = CosmosClient(endpoint, {container.container_link: forged}, connection_verify=False)
        database_client = client.get_database_client(database.id)
        database_client.get_container_client(container.id).read_item("a", "p")

    forbidden(read)


def test_wrong_master_key_is_refused(endpoint):
    wrong = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXk="
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        CosmosClient(endpoint, wrong, connection_verify=False).create_database("never")
    assert refused.value.status_code == 401

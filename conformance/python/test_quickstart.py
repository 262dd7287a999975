"""Proves that the programs of the SDK's quick starts run: synchronous and asynchronous, start to end."""
import asyncio

from azure.cosmos import PartitionKey, exceptions
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from conftest import new_name


def test_quickstart_runs_from_start_to_end(client):
    name = new_name("quickstart")
    database = client.create_database_if_not_exists(id=name)
    try:
        container = database.create_container_if_not_exists(
            id="products", partition_key=PartitionKey(path="/category"), offer_throughput=400
        )
        item = {
            "id": "70b63682-b93a-4c77-aad2-65501347265f",
            "category": "gear-surf-surfboards",
            "name": "Yamba Surfboard",
            "quantity": 12,
            "sale": False,
        }
        created = container.upsert_item(item)
        assert {**item}.items() <= dict(created).items()

        read = container.read_item(item=item["id"], partition_key=item["category"])
        assert read["name"] == "Yamba Surfboard"

        found = list(
            container.query_items(
                query="SELECT * FROM products p WHERE p.category = @category",
                parameters=[{"name": "@category", "value": "gear-surf-surfboards"}],
                enable_cross_partition_query=False,
                partition_key="gear-surf-surfboards",
            )
        )
        assert [row["id"] for row in found] == [item["id"]]

        # Both "if not exists" forms meet what is there already.
        assert client.create_database_if_not_exists(id=name).id == name
        again = database.create_container_if_not_exists(
            id="products", partition_key=PartitionKey(path="/category")
        )
        assert again.read_item(item["id"], item["category"])["quantity"] == 12

        container.delete_item(item["id"], item["category"])
        try:
            container.read_item(item["id"], item["category"])
            raise AssertionError("a deleted item was read")
        except exceptions.CosmosResourceNotFoundError as error:
            assert error.status_code == 404
    finally:
        client.delete_database(name)


def test_asynchronous_quickstart_runs_from_start_to_end(endpoint, key):
    async def program():
        name = new_name("quickstart")
        async with AsyncCosmosClient(endpoint, key, connection_verify=False) as client:
            database = await client.create_database(name)
            try:
                container = await database.create_container("c", PartitionKey(path="/pk"))
                for number in range(5):
                    await container.create_item({"id": str(number), "pk": "p", "number": number})
                rows = [
                    row
                    async for row in container.query_items(
                        "SELECT VALUE c.number FROM c WHERE c.number > @least ORDER BY c.number DESC",
                        parameters=[{"name": "@least", "value": 1}],
                        partition_key="p",
                    )
                ]
                assert rows == [4, 3, 2]
                assert (await container.read_item("3", "p"))["number"] == 3
                await container.delete_item("3", "p")
                assert sorted([row["id"] async for row in container.read_all_items()]) == [
                    "0", "1", "2", "4"
                ]
            finally:
                await client.delete_database(name)

    asyncio.run(program())


def test_account_is_described(client):
    account = client.get_database_account()
    assert account.ConsistencyPolicy["defaultConsistencyLevel"] == "Session"
    assert len(account.WritableLocations) >= 1
    assert len(account.ReadableLocations) >= 1

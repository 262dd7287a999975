"""Proves that throughput is read and replaced, manual and autoscale, on containers and databases."""
import pytest
from azure.cosmos import PartitionKey, ThroughputProperties, exceptions

from conftest import new_name


def test_default_is_four_hundred(container):
    assert container.get_throughput().offer_throughput == 400


def test_manual_throughput_is_replaced(make_container):
    container = make_container(offer_throughput=600)
    assert container.get_throughput().offer_throughput == 600
    assert container.replace_throughput(1000).offer_throughput == 1000
    assert container.get_throughput().offer_throughput == 1000


def test_autoscale_throughput_is_replaced(make_container):
    container = make_container(
        offer_throughput=ThroughputProperties(auto_scale_max_throughput=4000)
    )
    assert container.get_throughput().auto_scale_max_throughput == 4000
    container.replace_throughput(
        ThroughputProperties(auto_scale_max_throughput=7000, auto_scale_increment_percent=0)
    )
    assert container.get_throughput().auto_scale_max_throughput == 7000


@pytest.mark.parametrize("throughput", [100, 450, -1], ids=str)
def test_impossible_throughput_is_refused(database, throughput):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        database.create_container(
            new_name("bad"), PartitionKey(path="/pk"), offer_throughput=throughput
        )
    assert refused.value.status_code == 400


def test_throughput_below_the_minimum_is_refused(container):
    with pytest.raises(exceptions.CosmosHttpResponseError) as refused:
        container.replace_throughput(100)
    assert refused.value.status_code == 400
    assert container.get_throughput().offer_throughput == 400


# Without an offer the SDK raises its own 404; 4.17.1 then stumbles while refreshing a container that
# no offers request has.
NO_OFFER = (exceptions.CosmosResourceNotFoundError, AttributeError)


def test_shared_throughput_of_a_database(client):
    database = client.create_database(new_name("shared"), offer_throughput=800)
    try:
        assert database.get_throughput().offer_throughput == 800
        database.replace_throughput(1200)
        assert database.get_throughput().offer_throughput == 1200
        container = database.create_container("c", PartitionKey(path="/pk"))
        with pytest.raises(NO_OFFER):
            container.get_throughput()
    finally:
        client.delete_database(database)


def test_database_without_throughput_has_none(database):
    with pytest.raises(NO_OFFER):
        database.get_throughput()

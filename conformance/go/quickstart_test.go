package armilla

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The steps of the SDK's quick start: write, read, query, patch, batch, delete.
func TestQuickStart(t *testing.T) {
	container, ctx := newContainer(t, 400), within(t)
	key := azcosmos.NewPartitionKeyString("gear")
	upsert(t, container, document{"id": "board", "pk": "gear", "quantity": 12, "sale": false})
	read := must(container.ReadItem(ctx, key, "board", nil))
	if parsed(t, read.Value)["quantity"] != 12.0 || read.RequestCharge <= 0 {
		t.Fatalf("read %s for %f", read.Value, read.RequestCharge)
	}
	patch := azcosmos.PatchOperations{}
	patch.AppendIncrement("/quantity", 3)
	patch.AppendSet("/sale", true)
	must(container.PatchItem(ctx, key, "board", patch, nil))

	options := &azcosmos.QueryOptions{
		QueryParameters: []azcosmos.QueryParameter{{Name: "@least", Value: 10}},
	}
	pager := container.NewQueryItemsPager("SELECT * FROM c WHERE c.quantity >= @least", key, options)
	rows := 0
	for pager.More() {
		for _, row := range must(pager.NextPage(ctx)).Items {
			item := parsed(t, row)
			if item["quantity"] != 15.0 || item["sale"] != true {
				t.Fatalf("the query shows %v", item)
			}
			rows++
		}
	}
	if rows != 1 {
		t.Fatalf("%d rows", rows)
	}

	batch := container.NewTransactionalBatch(key)
	batch.CreateItem(must(json.Marshal(document{"id": "fin", "pk": "gear"})), nil)
	batch.DeleteItem("board", nil)
	if outcome := must(container.ExecuteTransactionalBatch(ctx, batch, nil)); !outcome.Success {
		t.Fatalf("%+v", outcome.OperationResults)
	}
	_, err := container.ReadItem(ctx, key, "board", nil)
	var refused *azcore.ResponseError
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound {
		t.Fatalf("a deleted item: %v", err)
	}
}

// A query over all partitions.
func TestCrossPartitionQuery(t *testing.T) {
	container, ctx := newContainer(t, 30_000), within(t)
	for _, pk := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		upsert(t, container, document{"id": pk, "pk": pk})
	}
	pager := container.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil)
	seen := map[string]bool{}
	for pager.More() {
		for _, row := range must(pager.NextPage(ctx)).Items {
			seen[parsed(t, row)["id"].(string)] = true
		}
	}
	if len(seen) != 7 {
		t.Fatalf("%v", seen)
	}
}

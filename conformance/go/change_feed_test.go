package armilla

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// drain reads pages until several in a row bring nothing, and says where to go on.
func drain(
	t *testing.T,
	container *azcosmos.ContainerClient,
	options azcosmos.ChangeFeedOptions,
	seen map[string]float64,
) *string {
	t.Helper()
	for quiet := 0; quiet < 8; {
		page := must(container.ReadChangeFeed(within(t), &options))
		quiet++
		for _, row := range page.Items {
			item := parsed(t, row)
			seen[item["id"].(string)] = item["version"].(float64)
			quiet = 0
		}
		token := page.ContinuationToken
		if token == "" {
			t.Fatal("a page has no continuation")
		}
		options.Continuation = &token
	}
	return options.Continuation
}

// The pull model over the whole container, over one feed range, and across a split.
func TestChangeFeedSurvivesASplit(t *testing.T) {
	container := newContainer(t, 400)
	for number := range 20 {
		upsert(t, container, document{"id": fmt.Sprint(number), "pk": fmt.Sprint("p", number), "version": 1})
	}
	ranges := must(container.ReadFeedRanges(within(t), nil))
	if len(ranges) != 1 {
		t.Fatalf("%d ranges", len(ranges))
	}
	seen := map[string]float64{}
	position := drain(t, container, azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], MaxItemCount: 3}, seen)
	if len(seen) != 20 {
		t.Fatalf("%d items before the split", len(seen))
	}

	units := azcosmos.NewManualThroughputProperties(25_000)
	must(container.ReplaceThroughput(within(t), units, nil))
	for number := range 10 {
		upsert(t, container, document{"id": fmt.Sprint(number), "pk": fmt.Sprint("p", number), "version": 2})
	}
	changed := map[string]float64{}
	drain(t, container, azcosmos.ChangeFeedOptions{Continuation: position, MaxItemCount: 3}, changed)
	if len(changed) != 10 {
		t.Fatalf("%d changes after the split: %v", len(changed), changed)
	}
	for id, version := range changed {
		if version != 2 {
			t.Fatalf("%s has version %v", id, version)
		}
	}
}

// From a time on, and for one partition key.
func TestChangeFeedStarts(t *testing.T) {
	container := newContainer(t, 400)
	upsert(t, container, document{"id": "old", "pk": "a", "version": 1})
	time.Sleep(2100 * time.Millisecond)
	// The second it starts from is left out, as by the service.
	start := time.Now().Add(-time.Second)
	upsert(t, container, document{"id": "new", "pk": "a", "version": 1})
	upsert(t, container, document{"id": "other", "pk": "b", "version": 1})
	ranges := must(container.ReadFeedRanges(within(t), nil))
	seen := map[string]float64{}
	drain(t, container, azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], StartFrom: &start}, seen)
	if len(seen) != 2 || seen["old"] != 0 {
		t.Fatalf("from a time on: %v", seen)
	}
	key := azcosmos.NewPartitionKeyString("a")
	seen = map[string]float64{}
	drain(t, container, azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], PartitionKey: &key}, seen)
	if len(seen) != 2 || seen["other"] != 0 {
		t.Fatalf("for one key: %v", seen)
	}
}

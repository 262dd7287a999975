// Package armilla holds tests that drive a server through azcosmos, the Go SDK.
package armilla

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const publishedKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

type document = map[string]any

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// must returns what came, and panics when nothing did.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// connect makes a client; certificates of the local server are not checked.
func connect(t *testing.T) *azcosmos.Client {
	t.Helper()
	credential := must(azcosmos.NewKeyCredential(setting("ARMILLA_KEY", publishedKey)))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	options := &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}},
	}
	endpoint := setting("ARMILLA_ENDPOINT", "http://localhost:8081/")
	return must(azcosmos.NewClientWithKey(endpoint, credential, options))
}

// newContainer makes a container in a database of its own, which goes with the test.
func newContainer(t *testing.T, throughput int32) *azcosmos.ContainerClient {
	t.Helper()
	ctx, client := within(t), connect(t)
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	name := "go-" + hex.EncodeToString(random)
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, nil); err != nil {
		t.Fatal(err)
	}
	database := must(client.NewDatabase(name))
	t.Cleanup(func() { _, _ = database.Delete(context.Background(), nil) })
	properties := azcosmos.ContainerProperties{
		ID:                     "items",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}, Version: 2},
	}
	units := azcosmos.NewManualThroughputProperties(throughput)
	options := &azcosmos.CreateContainerOptions{ThroughputProperties: &units}
	if _, err := database.CreateContainer(ctx, properties, options); err != nil {
		t.Fatal(err)
	}
	return must(client.NewContainer(name, "items"))
}

func upsert(t *testing.T, container *azcosmos.ContainerClient, item document) {
	t.Helper()
	body := must(json.Marshal(item))
	key := azcosmos.NewPartitionKeyString(item["pk"].(string))
	if _, err := container.UpsertItem(within(t), key, body, nil); err != nil {
		t.Fatal(err)
	}
}

func parsed(t *testing.T, text []byte) document {
	t.Helper()
	var item document
	if err := json.Unmarshal(text, &item); err != nil {
		t.Fatal(err)
	}
	return item
}

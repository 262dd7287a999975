package armilla

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// The Go snippet of docs/guide.md, run as a program of its own.
func TestGuide(t *testing.T) {
	const database = "guide-go"
	ctx, client := within(t), connect(t)
	must(client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil))
	blog := must(client.NewDatabase(database))
	t.Cleanup(func() { _, _ = blog.Delete(context.Background(), nil) })
	must(blog.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID:                     "posts",
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/postId"}, Version: 2},
	}, nil))
	posts := must(client.NewContainer(database, "posts"))
	post := []byte(`{"id":"p1","postId":"p1","title":"Rings"}`)
	must(posts.UpsertItem(ctx, azcosmos.NewPartitionKeyString("p1"), post, nil))

	guide := string(must(os.ReadFile("../../docs/guide.md")))
	found := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(guide, -1)
	if len(found) != 1 {
		t.Fatalf("the guide has %d snippets in Go", len(found))
	}
	endpoint := strings.Replace(setting("ARMILLA_ENDPOINT", "http://localhost:8081/"), "https:", "http:", 1)
	program := strings.NewReplacer("http://localhost:8081/", endpoint, `"blog"`, `"`+database+`"`).Replace(found[0][1])
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("go", "run", file).CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Rings") {
		t.Fatalf("%v: %s", err, output)
	}
}

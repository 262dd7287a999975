using System.Net;
using System.Text;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Linq;
using Xunit;

namespace Armilla.Conformance;

public sealed class ItemTestsInGatewayMode() : ItemTests(ConnectionMode.Gateway);

public sealed class ItemTestsInDirectMode() : ItemTests(ConnectionMode.Direct);

/// <summary>Items and queries: what most programs do.</summary>
public abstract class ItemTests(ConnectionMode mode) : InDatabase(mode)
{
    private static readonly PartitionKey P = new("p");

    [Fact]
    public async Task An_item_is_created_read_replaced_and_deleted()
    {
        Container posts = await CreateContainer();
        ItemResponse<Post> created = await posts.CreateItemAsync(new Post("a", "p", 1), P);
        Assert.Equal(HttpStatusCode.Created, created.StatusCode);
        Assert.True(created.RequestCharge > 0);
        var twice = await Assert.ThrowsAsync<CosmosException>(() => posts.CreateItemAsync(new Post("a", "p", 1), P));
        Assert.Equal(HttpStatusCode.Conflict, twice.StatusCode);
        ItemResponse<Post> read = await posts.ReadItemAsync<Post>("a", P);
        Assert.Equal(created.ETag, read.ETag);
        await posts.ReplaceItemAsync(new Post("a", "p", 2), "a", P, new() { IfMatchEtag = read.ETag });
        var stale = await Assert.ThrowsAsync<CosmosException>(
            () => posts.ReplaceItemAsync(new Post("a", "p", 3), "a", P, new() { IfMatchEtag = read.ETag }));
        Assert.Equal(HttpStatusCode.PreconditionFailed, stale.StatusCode);
        Assert.Equal(2, (await posts.UpsertItemAsync(new Post("a", "p", 2), P)).Resource.n);
        await posts.DeleteItemAsync<Post>("a", P);
        var gone = await Assert.ThrowsAsync<CosmosException>(() => posts.ReadItemAsync<Post>("a", P));
        Assert.Equal((HttpStatusCode.NotFound, 0), (gone.StatusCode, gone.SubStatusCode));
    }

    [Fact]
    public async Task A_patch_changes_what_it_names_when_its_condition_holds()
    {
        Container posts = await CreateContainer();
        await posts.CreateItemAsync(new Post("a", "p", 1), P);
        PatchOperation[] changes = [PatchOperation.Increment("/n", 4), PatchOperation.Set("/title", "Rings")];
        Post patched = await posts.PatchItemAsync<Post>("a", P, changes);
        Assert.Equal(new Post("a", "p", 5, "Rings"), patched);
        PatchItemRequestOptions unmet = new() { FilterPredicate = "FROM c WHERE c.n = 1" };
        var refused = await Assert.ThrowsAsync<CosmosException>(() => posts.PatchItemAsync<Post>("a", P, changes, unmet));
        Assert.Equal(HttpStatusCode.PreconditionFailed, refused.StatusCode);
    }

    [Fact]
    public async Task Streams_go_in_and_come_back()
    {
        Container posts = await CreateContainer();
        using MemoryStream body = new(Encoding.UTF8.GetBytes("""{"id":"a","pk":"p","n":7}"""));
        using ResponseMessage created = await posts.CreateItemStreamAsync(body, P);
        Assert.Equal(HttpStatusCode.Created, created.StatusCode);
        using ResponseMessage read = await posts.ReadItemStreamAsync("a", P);
        using StreamReader text = new(read.Content);
        Assert.Contains("\"n\":7", await text.ReadToEndAsync());
        using ResponseMessage missing = await posts.ReadItemStreamAsync("b", P);
        Assert.Equal(HttpStatusCode.NotFound, missing.StatusCode);
    }

    [Fact]
    public async Task Queries_page_order_and_aggregate_over_three_ranges()
    {
        Container posts = await Filled(25_000);
        QueryDefinition ordered = new("SELECT * FROM c WHERE c.n >= @least ORDER BY c.n DESC");
        ordered.WithParameter("@least", 10);
        List<int> found = [];
        string? token = null;
        do
        {
            using var pages = posts.GetItemQueryIterator<Post>(ordered, token, new() { MaxItemCount = 7 });
            FeedResponse<Post> page = await pages.ReadNextAsync();
            found.AddRange(page.Select(post => post.n));
            token = page.ContinuationToken;
        }
        while (token is not null);
        Assert.Equal(Enumerable.Range(10, 30).Reverse(), found);
        Assert.Equal(new[] { 40 }, await All(posts.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c")));
        var groups = await All(posts.GetItemQueryIterator<dynamic>("SELECT c.title, SUM(c.n) AS s FROM c GROUP BY c.title"));
        Assert.Equal(2, groups.Count);
        Assert.Equal(2, (await All(posts.GetItemQueryIterator<string>("SELECT DISTINCT VALUE c.title FROM c"))).Count);
    }

    [Fact]
    public async Task Linq_is_answered_as_over_lists()
    {
        Container posts = await Filled(400);
        IQueryable<Post> query = posts.GetItemLinqQueryable<Post>()
            .Where(post => post.n % 4 == 0 && post.title!.StartsWith("e"))
            .OrderBy(post => post.n);
        List<Post> found = await All(query.ToFeedIterator());
        Assert.Equal(Enumerable.Range(0, 10).Select(number => number * 4), found.Select(post => post.n));
        Assert.Equal(40, (await posts.GetItemLinqQueryable<Post>().CountAsync()).Resource);
        Assert.Equal(39, (await posts.GetItemLinqQueryable<Post>().MaxAsync(post => post.n)).Resource);
    }

    [Fact]
    public async Task Many_items_are_read_at_once()
    {
        Container posts = await Filled(25_000);
        var wanted = Enumerable.Range(0, 40).Select(number => ($"i{number}", new PartitionKey($"p{number % 8}"))).ToList();
        FeedResponse<Post> found = await posts.ReadManyItemsAsync<Post>(wanted);
        Assert.Equal(40, found.Count);
    }

    /// <summary>Forty posts in eight partitions, even and odd.</summary>
    private async Task<Container> Filled(int throughput)
    {
        Container posts = await CreateContainer(throughput);
        for (int number = 0; number < 40; number++)
        {
            string title = number % 2 == 0 ? "even" : "odd";
            await posts.CreateItemAsync(new Post($"i{number}", $"p{number % 8}", number, title));
        }

        return posts;
    }
}

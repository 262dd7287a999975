using System.Collections.Concurrent;
using System.Net;
using Microsoft.Azure.Cosmos;
using Xunit;

namespace Armilla.Conformance;

public sealed class ChangeFeedTestsInGatewayMode() : ChangeFeedTests(ConnectionMode.Gateway);

public sealed class ChangeFeedTestsInDirectMode() : ChangeFeedTests(ConnectionMode.Direct);

/// <summary>The change feed, pulled and by the processor with its leases.</summary>
public abstract class ChangeFeedTests(ConnectionMode mode) : InDatabase(mode)
{
    private static readonly TimeSpan Within = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task The_feed_is_read_to_its_end_and_on_from_there()
    {
        Container posts = await CreateContainer(25_000);
        await Write(posts, 0, 12);
        (List<string> found, string token) = await Pull(posts, ChangeFeedStartFrom.Beginning());
        Assert.Equal(12, found.Distinct().Count());
        await Write(posts, 12, 15);
        (found, _) = await Pull(posts, ChangeFeedStartFrom.ContinuationToken(token));
        Assert.Equal(new[] { "i12", "i13", "i14" }, found.Order());
    }

    [Fact]
    public async Task The_processor_sees_every_change()
    {
        Container posts = await CreateContainer(25_000);
        Container leases = await Database.CreateContainerAsync("leases", "/id");
        ConcurrentDictionary<string, bool> seen = [];
        TaskCompletionSource whole = new();
        Task Handle(IReadOnlyCollection<Post> changes, CancellationToken stop)
        {
            foreach (Post change in changes)
            {
                seen[change.id] = true;
            }

            if (seen.Count == 20)
            {
                whole.TrySetResult();
            }

            return Task.CompletedTask;
        }

        ChangeFeedProcessor processor = posts.GetChangeFeedProcessorBuilder<Post>("reader", Handle)
            .WithInstanceName("one")
            .WithLeaseContainer(leases)
            .WithPollInterval(TimeSpan.FromMilliseconds(100))
            .WithStartTime(DateTime.MinValue.ToUniversalTime())
            .Build();
        await processor.StartAsync();
        await Write(posts, 0, 20);
        await whole.Task.WaitAsync(Within);
        await processor.StopAsync();
    }

    private static async Task Write(Container posts, int from, int to)
    {
        for (int number = from; number < to; number++)
        {
            await posts.UpsertItemAsync(new Post($"i{number}", $"p{number}", number));
        }
    }

    private static async Task<(List<string> Found, string Token)> Pull(Container posts, ChangeFeedStartFrom start)
    {
        using var pages = posts.GetChangeFeedIterator<Post>(start, ChangeFeedMode.Incremental);
        List<string> found = [];
        while (true)
        {
            FeedResponse<Post> page = await pages.ReadNextAsync();
            if (page.StatusCode == HttpStatusCode.NotModified)
            {
                return (found, page.ContinuationToken);
            }

            found.AddRange(page.Select(post => post.id));
        }
    }
}

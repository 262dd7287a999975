using System.Net;
using Microsoft.Azure.Cosmos;
using Microsoft.Azure.Cosmos.Scripts;
using Xunit;

namespace Armilla.Conformance;

public sealed class WriteTestsInGatewayMode() : WriteTests(ConnectionMode.Gateway);

public sealed class WriteTestsInDirectMode() : WriteTests(ConnectionMode.Direct);

/// <summary>Writes of several items: batches and bulk, which the SDK sends in HybridRow, and scripts.</summary>
public abstract class WriteTests(ConnectionMode mode) : InDatabase(mode)
{
    private static readonly PartitionKey P = new("p");

    [Fact]
    public async Task A_batch_is_done_whole_or_not_at_all()
    {
        Container posts = await CreateContainer();
        using TransactionalBatchResponse done = await posts.CreateTransactionalBatch(P)
            .CreateItem(new Post("a", "p", 1))
            .PatchItem("a", [PatchOperation.Increment("/n", 1)])
            .ReadItem("a")
            .UpsertItem(new Post("b", "p", 1))
            .DeleteItem("b")
            .ExecuteAsync();
        Assert.True(done.IsSuccessStatusCode, done.ErrorMessage);
        Assert.Equal(2, done.GetOperationResultAtIndex<Post>(2).Resource.n);
        using TransactionalBatchResponse failed = await posts.CreateTransactionalBatch(P)
            .DeleteItem("a")
            .CreateItem(new Post("c", "p", 1))
            .ReadItem("missing")
            .ExecuteAsync();
        Assert.Equal(HttpStatusCode.NotFound, failed.StatusCode);
        Assert.Equal(
            new[] { HttpStatusCode.FailedDependency, HttpStatusCode.FailedDependency, HttpStatusCode.NotFound },
            failed.Select(row => row.StatusCode));
        await posts.ReadItemAsync<Post>("a", P);
    }

    [Fact]
    public async Task Bulk_writes_over_three_ranges_each_stand_alone()
    {
        Container posts = await CreateContainer(25_000);
        using CosmosClient client = Server.Connect(Mode, bulk: true);
        Container bulk = client.GetContainer(Database.Id, posts.Id);
        await bulk.CreateItemAsync(new Post("i7", "p7", 0), new PartitionKey("p7"));
        var writes = Enumerable.Range(0, 300)
            .Select(number => Create(bulk, new Post($"i{number}", $"p{number % 50}", number)));
        HttpStatusCode[] verdicts = await Task.WhenAll(writes);
        Assert.Equal(299, verdicts.Count(verdict => verdict == HttpStatusCode.Created));
        Assert.Equal(HttpStatusCode.Conflict, verdicts[7]);
        Assert.Equal(new[] { 300 }, await All(posts.GetItemQueryIterator<int>("SELECT VALUE COUNT(1) FROM c")));
    }

    [Fact]
    public async Task Procedures_triggers_and_functions_run()
    {
        Container posts = await CreateContainer(25_000);
        const string add = "function (n) { console.log('adding'); getContext().getResponse().setBody(n + 1); }";
        const string stamp =
            "function () { var r = getContext().getRequest(), b = r.getBody(); b.title = 'stamped'; r.setBody(b); }";
        await posts.Scripts.CreateStoredProcedureAsync(new StoredProcedureProperties("add", add));
        await posts.Scripts.CreateTriggerAsync(new TriggerProperties
        {
            Id = "stamp", Body = stamp, TriggerType = TriggerType.Pre, TriggerOperation = TriggerOperation.Create,
        });
        await posts.Scripts.CreateUserDefinedFunctionAsync(
            new UserDefinedFunctionProperties { Id = "twice", Body = "function (n) { return 2 * n; }" });
        StoredProcedureExecuteResponse<int> answer = await posts.Scripts.ExecuteStoredProcedureAsync<int>(
            "add", P, [41], new() { EnableScriptLogging = true });
        Assert.Equal((42, "adding"), (answer.Resource, answer.ScriptLog));
        Post stamped = await posts.CreateItemAsync(new Post("a", "p", 3), P, new() { PreTriggers = ["stamp"] });
        Assert.Equal("stamped", stamped.title);
        Assert.Equal(new[] { 6 }, await All(posts.GetItemQueryIterator<int>("SELECT VALUE udf.twice(c.n) FROM c")));
    }

    private static async Task<HttpStatusCode> Create(Container bulk, Post post)
    {
        try
        {
            return (await bulk.CreateItemAsync(post, new PartitionKey(post.pk))).StatusCode;
        }
        catch (CosmosException refused)
        {
            return refused.StatusCode;
        }
    }
}

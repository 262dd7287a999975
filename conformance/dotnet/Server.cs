using Microsoft.Azure.Cosmos;
using Xunit;

namespace Armilla.Conformance;

/// <summary>The server under test: <c>ARMILLA_ENDPOINT</c> and <c>ARMILLA_KEY</c>.</summary>
internal static class Server
{
    private const string PublishedKey =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    public static string Endpoint => Setting("ARMILLA_ENDPOINT", "https://localhost:8081/");

    public static string Key => Setting("ARMILLA_KEY", PublishedKey);

    /// <summary>A client; its certificate check covers both wires.</summary>
    public static CosmosClient Connect(ConnectionMode mode, bool bulk = false) =>
        new(Endpoint, Key, new CosmosClientOptions
        {
            ConnectionMode = mode,
            AllowBulkExecution = bulk,
            ServerCertificateCustomValidationCallback = (_, _, _) => true,
        });

    private static string Setting(string name, string otherwise) =>
        Environment.GetEnvironmentVariable(name) is { Length: > 0 } value ? value : otherwise;
}

/// <summary>A database of its own for the tests of one class in one mode; it goes with them.</summary>
public abstract class InDatabase(ConnectionMode mode) : IAsyncLifetime
{
    protected CosmosClient Client { get; } = Server.Connect(mode);

    protected ConnectionMode Mode { get; } = mode;

    protected Database Database { get; private set; } = null!;

    public async Task InitializeAsync() =>
        Database = await Client.CreateDatabaseAsync($"dotnet-{Guid.NewGuid()}");

    public async Task DisposeAsync()
    {
        await Database.DeleteAsync();
        Client.Dispose();
    }

    /// <summary>A container partitioned by <c>/pk</c>; above 10,000 RU/s it has several ranges.</summary>
    protected async Task<Container> CreateContainer(int throughput = 400) =>
        await Database.CreateContainerAsync($"c-{Guid.NewGuid()}", "/pk", throughput);

    protected static async Task<List<T>> All<T>(FeedIterator<T> pages)
    {
        using (pages)
        {
            var rows = new List<T>();
            while (pages.HasMoreResults)
            {
                rows.AddRange(await pages.ReadNextAsync());
            }

            return rows;
        }
    }
}

/// <summary>An item as these tests write it.</summary>
public record Post(string id, string pk, int n, string? title = null);

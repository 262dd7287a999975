using Microsoft.Azure.Cosmos;
using Microsoft.EntityFrameworkCore;
using Xunit;

namespace Armilla.Conformance;

/// <summary>A small application on EF Core, in both modes.</summary>
public sealed class EntityFrameworkTests
{
    [Theory]
    [InlineData(ConnectionMode.Gateway)]
    [InlineData(ConnectionMode.Direct)]
    public async Task A_blog_is_saved_queried_changed_and_removed(ConnectionMode mode)
    {
        string database = $"ef-{Guid.NewGuid()}";
        await using (Blog blog = new(database, mode))
        {
            await blog.Database.EnsureCreatedAsync();
            blog.Articles.AddRange(Enumerable.Range(0, 5).Select(number => new Article
            {
                Id = $"a{number}", Author = "mary", Title = $"Part {number}", Comments = [new() { Text = "first" }],
            }));
            await blog.SaveChangesAsync();
        }

        await using (Blog blog = new(database, mode))
        {
            List<Article> found = await blog.Articles
                .Where(article => article.Author == "mary" && article.Comments.Count == 1)
                .OrderByDescending(article => article.Title)
                .ToListAsync();
            Assert.Equal(new[] { "Part 4", "Part 3", "Part 2", "Part 1", "Part 0" }, found.Select(article => article.Title));
            found[0].Comments.Add(new() { Text = "second" });
            blog.Articles.Remove(found[1]);
            await blog.SaveChangesAsync();
        }

        await using (Blog blog = new(database, mode))
        {
            Assert.Equal(4, await blog.Articles.CountAsync());
            Article? changed = await blog.Articles.FindAsync("a4", "mary");
            Assert.Equal(2, changed?.Comments.Count);
            await blog.Database.EnsureDeletedAsync();
        }
    }

    private sealed class Blog(string database, ConnectionMode mode) : DbContext
    {
        public DbSet<Article> Articles => Set<Article>();

        protected override void OnConfiguring(DbContextOptionsBuilder options) =>
            options.UseCosmos(
                $"AccountEndpoint={Server.Endpoint};AccountKey={Server.Key};DisableServerCertificateValidation=True",
                database,
                cosmos => cosmos.ConnectionMode(mode));

        protected override void OnModelCreating(ModelBuilder model) =>
            model.Entity<Article>(article =>
            {
                article.ToContainer("articles");
                article.HasKey(row => new { row.Id, row.Author });
                article.HasPartitionKey(row => row.Author);
                article.OwnsMany(row => row.Comments);
            });
    }

    private sealed class Article
    {
        public required string Id { get; set; }

        public required string Author { get; set; }

        public required string Title { get; set; }

        public List<Comment> Comments { get; set; } = [];
    }

    private sealed class Comment
    {
        public required string Text { get; set; }
    }
}

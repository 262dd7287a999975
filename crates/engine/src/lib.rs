//! What Cosmos DB does: accounts, containers, partitions, transactions, queries.

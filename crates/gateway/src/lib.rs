//! What Cosmos DB says: the HTTP protocol that the official SDKs speak.

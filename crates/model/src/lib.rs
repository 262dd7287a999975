//! The nouns of the database: values, names, policies, limits and errors. No I/O.

//! The names that a rewritten text gives its columns, and what is read by them.

/// The sort keys of a row.
pub(super) const ORDER_ITEMS: &str = "orderByItems";
/// The groups of a row.
pub(super) const GROUP_ITEMS: &str = "groupByItems";
/// The row that the client's user sees.
pub(super) const PAYLOAD: &str = "payload";

/// How a text names the two columns of rows that are merged in order.
const ORDER_COLUMNS: [&str; 2] = ["AS orderByItems", "AS payload"];
/// Where the payload begins.
const PAYLOAD_MARK: &[u8] = b",\"payload\":";

/// True for the text that a client sends to ranges whose rows it merges in order.
pub fn is_rewritten_order(text: &str) -> bool {
    ORDER_COLUMNS.iter().all(|column| text.contains(column))
}

/// The bytes that a client's user sees of a row of such a text: what the text adds so that rows can
/// be merged stands around them.
pub fn payload_size(row: &[u8]) -> usize {
    let mut commas = memchr::memchr_iter(b',', row);
    let mark = commas.find(|at| row[*at..].starts_with(PAYLOAD_MARK));
    mark.map_or(row.len(), |at| row.len() - at - PAYLOAD_MARK.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_a_row_is_measured() {
        let row = br#"{"_rid":"x","orderByItems":[{"item":1}],"payload":{"id":"a"}}"#;
        assert_eq!(payload_size(row), r#"{"id":"a"}"#.len());
        assert_eq!(payload_size(b"[1]"), 3);
    }

    #[test]
    fn texts_that_clients_merge_in_order_are_known() {
        let text =
            "SELECT c._rid, [{\"item\": c.n}] AS orderByItems, c AS payload FROM c ORDER BY c.n";
        assert!(is_rewritten_order(text));
        assert!(!is_rewritten_order("SELECT c AS payload FROM c ORDER BY c.n"));
    }
}

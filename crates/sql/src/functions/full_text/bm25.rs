//! BM25: how well a text fits terms, given statistics over all texts. Ranked queries gather those in `rank`.

/// How fast further occurrences of a term stop to count, as BM25 names it.
const BM25_K1: f64 = 1.2;
/// How much long texts are held back, as BM25 names it.
const BM25_B: f64 = 0.75;

/// What a score must know about all texts beside the one at hand.
#[derive(Clone, Debug)]
pub struct TermStatistics {
    /// Number of items.
    pub documents: f64,
    /// Words in all their texts together.
    pub words: f64,
    /// For each term, the number of items it occurs in.
    pub hits: Vec<f64>,
}

/// The BM25 score of a text: `frequencies` has the occurrences of each term in it, `length` its
/// length. Terms without statistics do not count.
pub fn score(frequencies: &[usize], length: usize, statistics: &TermStatistics) -> f64 {
    let average = (statistics.words / statistics.documents.max(1.0)).max(1.0);
    let longer = 1.0 - BM25_B + BM25_B * length as f64 / average;
    let terms = frequencies.iter().zip(&statistics.hits);
    terms
        .map(|(&frequency, &hits)| {
            let frequency = frequency as f64;
            // Statistics may be a little behind the items, never so far that rarity turns negative.
            let without = (statistics.documents - hits).max(0.0);
            let rarity = (1.0 + (without + 0.5) / (hits + 0.5)).ln();
            rarity * frequency * (BM25_K1 + 1.0) / (frequency + BM25_K1 * longer)
        })
        .sum()
}

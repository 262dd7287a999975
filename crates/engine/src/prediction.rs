//! What a write would cost under another policy, before anybody decides for it.

use crate::Container;
use crate::indexing::terms_of;
use crate::paths::PathDictionary;
use armilla_model::charge::RequestCharge;
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;

/// What creating an item of so many bytes would cost in a container, if its policy were this one.
///
/// Paths are numbered in a dictionary of their own: nothing of the container changes.
pub fn create_charge(
    container: &Container,
    policy: &ContainerPolicy,
    item: &Value,
    size: usize,
) -> RequestCharge {
    let rates = container.rates();
    let terms = terms_of(item, 0, true, policy, &PathDictionary::default());
    rates.write(size) + rates.terms(terms.charged())
}

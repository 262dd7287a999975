//! vector.

use super::{Context, Function};
use armilla_model::Value;

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DistanceFunction {
    /// Cosine of the angle between the vectors: 1 is closest.
    #[default]
    Cosine,
    /// Dot product: largest is closest.
    DotProduct,
    /// Straight distance: 0 is closest.
    Euclidean,
}

/// What the container's vector policy says about one path.
#[derive(Clone, Debug)]
pub struct VectorSetting {
    /// The path as the policy writes it, for example `/embedding`.
    pub path: String,
    /// How vectors at that path are compared.
    pub distance_function: DistanceFunction,
    /// Number of dimensions of the vectors there.
    pub dimensions: usize,
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function::between("VECTORDISTANCE", 2, 4, later),
];

fn later(_: &mut Context<'_>, _: &[Value]) -> Value {
    Value::Undefined
}

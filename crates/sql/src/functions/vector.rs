//! Similarity of vectors.
//!
//! A function sees values, not paths, so the container's policy is matched by the number of
//! dimensions when the call has no options of its own.

use super::{Context, Function, Kind, defined, optional};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] =
    &[Function::between("VECTORDISTANCE", 2, 4, |context, arguments| {
        defined(vector_distance(context, arguments))
    })
    .or(&["_VECTORSCORE"])
    .by_container()
    .gives(
        Kind::Number,
        "Similarity of two vectors: cosine, dot product or Euclidean, by policy or options.",
    )];

/// How two vectors are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DistanceFunction {
    /// Cosine of the angle between the vectors: 1 is closest, 0 for a vector of zeros.
    #[default]
    Cosine,
    /// Dot product: largest is closest.
    DotProduct,
    /// Straight distance: 0 is closest.
    Euclidean,
}

/// What the elements of vectors are rounded to before they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataType {
    /// IEEE binary32.
    #[default]
    Float32,
    /// IEEE binary16.
    Float16,
    /// Whole numbers from 0 to 255.
    Uint8,
    /// Whole numbers from -128 to 127.
    Int8,
}

impl DataType {
    /// Reads the name options use, in any letter case.
    pub fn parse(name: &str) -> Option<Self> {
        let names = [
            ("float32", Self::Float32),
            ("float16", Self::Float16),
            ("uint8", Self::Uint8),
            ("int8", Self::Int8),
        ];
        names.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, it)| it)
    }

    /// The nearest number of the type; nothing when there is none.
    fn round(self, number: f64) -> Option<f64> {
        let whole = |low: f64, high: f64| {
            (number.fract() == 0.0 && (low..=high).contains(&number)).then_some(number)
        };
        match self {
            Self::Float32 => Some(f64::from(number as f32)).filter(|number| number.is_finite()),
            Self::Float16 => half(number),
            Self::Uint8 => whole(0.0, 255.0),
            Self::Int8 => whole(-128.0, 127.0),
        }
    }
}

/// The nearest binary16 number, ties to even; nothing beyond its range.
fn half(number: f64) -> Option<f64> {
    // From here on numbers round to infinity.
    const END: f64 = 65_520.0;
    if number.is_nan() || number.abs() >= END {
        return None;
    }
    // The distance of neighbours: 11 significant bits, but no less than the smallest number.
    let exponent = i32::try_from(number.abs().to_bits() >> 52).ok()? - 1023;
    let step = f64::powi(2.0, exponent.max(-14) - 10);
    Some((number / step).round_ties_even() * step)
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

impl DistanceFunction {
    /// Reads the name policies and options use, in any letter case.
    pub fn parse(name: &str) -> Option<Self> {
        let names = [
            ("cosine", Self::Cosine),
            ("dotproduct", Self::DotProduct),
            ("euclidean", Self::Euclidean),
        ];
        names.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, it)| it)
    }
}

/// The distance function a `VECTORDISTANCE` call uses: from its options, from the policy, or cosine.
/// Nothing when the options name one that does not exist.
pub fn distance_function(
    settings: &[VectorSetting],
    dimensions: usize,
    options: Option<&Value>,
) -> Option<DistanceFunction> {
    if let Some(name) = options.and_then(|options| options.get("distanceFunction")) {
        return DistanceFunction::parse(name.as_str()?);
    }
    let setting = settings.iter().find(|setting| setting.dimensions == dimensions);
    Some(setting.map(|setting| setting.distance_function).unwrap_or_default())
}

/// Compares two vectors; nothing unless both are arrays of as many numbers that fit the data type, at
/// least one. Elements are rounded to the data type, then everything is done in doubles, in order.
pub fn distance(
    left: &[Value],
    right: &[Value],
    function: DistanceFunction,
    data_type: DataType,
) -> Option<f64> {
    if left.len() != right.len() || left.is_empty() {
        return None;
    }
    // One pass collects what all three functions need.
    let (mut dot, mut left_square, mut right_square, mut difference) = (0.0, 0.0, 0.0, 0.0);
    for (left, right) in left.iter().zip(right) {
        let (left, right) = (data_type.round(left.as_f64()?)?, data_type.round(right.as_f64()?)?);
        dot += left * right;
        left_square += left * left;
        right_square += right * right;
        difference += (left - right) * (left - right);
    }
    Some(match function {
        DistanceFunction::DotProduct => dot,
        DistanceFunction::Euclidean => f64::sqrt(difference),
        DistanceFunction::Cosine if left_square == 0.0 || right_square == 0.0 => 0.0,
        // One root of the product: a vector with itself is exactly 1.
        DistanceFunction::Cosine => dot / f64::sqrt(left_square * right_square),
    })
}

fn vector_distance(context: &Context<'_>, arguments: &[Value]) -> Option<f64> {
    let (left, right) = (arguments[0].as_array()?, arguments[1].as_array()?);
    // Whether to search without an index is for the planner; here it only has to be a boolean.
    optional(arguments, 2, false, Value::as_bool)?;
    let options = arguments.get(3);
    options.is_none_or(|options| options.as_object().is_some()).then_some(())?;
    let function = distance_function(context.vectors, left.len(), options)?;
    let data_type = options.and_then(|options| options.get("dataType"));
    let data_type =
        data_type.map_or(Some(DataType::default()), |name| DataType::parse(name.as_str()?));
    distance(left, right, function, data_type?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::check;

    #[test]
    fn the_three_functions() {
        check(&[
            ("VECTORDISTANCE", "[[1,0],[1,0]]", "1"),
            ("VECTORDISTANCE", "[[1,0,0],[-1,0,0]]", "-1"),
            ("VECTORDISTANCE", "[[0,0],[1,0]]", "0"),
            ("VECTORDISTANCE", r#"[[1,2],[3,4],true,{"distanceFunction":"DotProduct"}]"#, "11"),
            ("VECTORDISTANCE", r#"[[0,0],[3,4],false,{"distanceFunction":"euclidean"}]"#, "5"),
            ("VECTORDISTANCE", r#"[[1,0],[1,0],false,{"dataType":"float32"}]"#, "1"),
            ("VECTORDISTANCE", "[[1,2],[1,2]]", "1"),
            (
                "VECTORDISTANCE",
                r#"[[0.1],[1],true,{"distanceFunction":"dotproduct"}]"#,
                "0.10000000149011612",
            ),
            (
                "VECTORDISTANCE",
                r#"[[65519,0.1],[1,1],true,{"distanceFunction":"dotproduct","dataType":"Float16"}]"#,
                "65504.09997558594",
            ),
            (
                "VECTORDISTANCE",
                r#"[[255],[2],true,{"distanceFunction":"dotproduct","dataType":"uint8"}]"#,
                "510",
            ),
        ]);
    }

    #[test]
    fn what_is_not_two_vectors_is_undefined() {
        check(&[
            ("VECTORDISTANCE", "[[[1]],[1]]", "undefined"),
            ("VECTORDISTANCE", "[[1,2],[1]]", "undefined"),
            ("VECTORDISTANCE", "[[],[]]", "undefined"),
            ("VECTORDISTANCE", "[[1e39],[1]]", "undefined"),
            ("VECTORDISTANCE", r#"[[65520],[1],true,{"dataType":"float16"}]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[1.5],[1],true,{"dataType":"int8"}]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[128],[1],true,{"dataType":"int8"}]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[-1],[1],true,{"dataType":"uint8"}]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[1],[1],true,{"dataType":"float64"}]"#, "undefined"),
            ("VECTORDISTANCE", r#"[["1"],[1]]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[1],[1],"x"]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[1],[1],true,1]"#, "undefined"),
            ("VECTORDISTANCE", r#"[[1],[1],true,{"distanceFunction":"hamming"}]"#, "undefined"),
        ]);
    }

    #[test]
    fn the_policy_decides_when_the_call_does_not() {
        let settings = [VectorSetting {
            path: "/e".to_owned(),
            distance_function: DistanceFunction::Euclidean,
            dimensions: 3,
        }];
        assert_eq!(distance_function(&settings, 3, None), Some(DistanceFunction::Euclidean));
        assert_eq!(distance_function(&settings, 2, None), Some(DistanceFunction::Cosine));
    }
}
